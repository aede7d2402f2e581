/** @file Questions that the workflows of jobs ask by short activities of the jobs' workers. */

import type { Process, Task } from "../kernel/process.ts";
import type { ActivityEnd } from "../temporal/activity.ts";
import type { AnyRun } from "../temporal/workflow.ts";
import { JOB_QUEUE, type Site } from "./site.ts";

export const FAILED: ActivityEnd<never> = { kind: "failed", code: "UNAVAILABLE" };

/** The question is asked until it is answered. */
export function ask(
  { activity }: Site,
  run: AnyRun,
  question: (process: Process) => Task<(() => void) | undefined>,
): void {
  activity<() => void>(run, {
    queue: JOB_QUEUE,
    name: "question",
    startToCloseMs: 60_000,
    *body({ process }) {
      const value = yield* question(process);
      return value === undefined ? FAILED : { kind: "done", value };
    },
    onEnd: (outcome) => {
      if (outcome.kind === "done") outcome.value();
    },
  });
}
