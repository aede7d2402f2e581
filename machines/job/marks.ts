/** @file When a job changes its search attributes: on entering or being held, on running, and at its end. */

import type { Step } from "../machine.ts";
import { quiet } from "../steps.ts";
import type { JobState } from "../../protocol/job.ts";
import type { Job, JobCommand } from "./job-state.ts";

/** A job may change its search attributes three times; the last change is kept for its end. */
const MAX_MARKS = 3;

/** Whether a change fits after so many others; one that does not fit is left out, never the last. */
export function mayMark(marks: number, next: JobState): boolean {
  return marks <= (next === "held" ? 0 : next === "running" ? 1 : MAX_MARKS);
}

export function mark(
  job: Job,
  next: JobState,
  clusters: readonly string[] = [],
): Step<Job, JobCommand> {
  if (!mayMark(job.marks, next)) return quiet(job);
  return {
    state: { ...job, marks: job.marks + 1 },
    commands: [{ kind: "mark", mark: { state: next, ...(clusters.length > 0 && { clusters }) } }],
  };
}
