/** @file The jobs that a job waits for, or has waited for, as text. */

import type { JobView } from "../../client/index.ts";
import { dependencyText } from "../../domain/job/dependency.ts";

/** A line for each, with what the job has heard of it; undefined where there are none. */
export const predecessorsText = ({ after }: JobView): string | undefined =>
  after
    ?.map((each) => {
      const verdict = { open: "", met: ", met", failed: ", never" }[each.verdict];
      return `${dependencyText(each)} (${each.state ?? "not heard of yet"}${verdict})`;
    })
    .join("\n");
