/** @file Changes the settings of one job for a verb, and says what has changed and since when. */

import type { AmendAnswer, JobHandle, NewSettings } from "../../client/index.ts";
import { changeText } from "../text/amendments.ts";
import type { CommandContext } from "./command-context.ts";
import type { JobChange } from "./each-job.ts";

/** `queueAnyway`: also where the fleet would never start it so. */
export async function amendOne(
  context: CommandContext,
  { job, queueAnyway }: { readonly job: JobHandle; readonly queueAnyway?: boolean },
  settings: NewSettings,
): Promise<JobChange> {
  const answer = await job.amend(settings, {
    ...(queueAnyway === true && { isQueuedAnyway: true }),
    onUnsigned: (why) => {
      context.say(
        `the change is not signed, so only hosts that trust the namespace run the job: ${why}`,
      );
    },
  });
  return { state: amendedText(answer), more: { amended: answer } };
}

function amendedText({ changes, isForNextRun }: AmendAnswer): string {
  if (changes.length === 0) return "as it was";
  const isLater = isForNextRun && changes.some(({ setting }) => setting !== "deadlineMs");
  return `${changes.map(changeText).join(", ")}${isLater ? " (from its next run on)" : ""}`;
}
