/** @file Jobs on a schedule of Temporal's: each of its times starts one `cron` workflow, which has the submit service of the fleet submit the job. */

import type { JobFile } from "../domain/job/job-file.ts";
import type { FailureCode } from "../domain/values/codes.ts";
import type { CameFlawed } from "./seal.ts";

export const CRON_WORKFLOW = "cron";

/** Of the workflow's logic. */
export const CRON_RULES = 1;

/** What happens at a time at which a job of the schedule still waits or runs. */
export const OVERLAPS = ["skip", "queue", "allow", "replace"] as const;
export type Overlap = (typeof OVERLAPS)[number];

/** What its submitter has asked for; the standing signature covers all of it. */
export interface CronTerms {
  readonly file: JobFile;
  /** As in `0 3 * * *`. */
  readonly expression: string;
  /** As in `Europe/Berlin`. */
  readonly timeZone: string;
  readonly overlap: Overlap;
}

/** The action of the schedule. */
export interface CronInput {
  readonly rules: number;
  readonly fleet: string;
  readonly cron: string;
  readonly terms: CronTerms;
  /** The standing signature of the submit service (`access/standing-order.ts`). */
  readonly order: string;
}

export type CronOutcome =
  | { readonly kind: "submitted"; readonly jobId: string }
  /** For a job of before that has not ended. */
  | { readonly kind: "skipped"; readonly former: string }
  | { readonly kind: "refused"; readonly code: FailureCode; readonly message: string };

/** An activity of the submit service. */
export interface CronActivities {
  /** `came`: how the input came, where that may be a reason to refuse it. */
  startCron(input: CronInput, atMs: number, came?: CameFlawed): Promise<CronOutcome>;
}

/** Where the submit service of a fleet takes it. */
export const cronTaskQueue = (fleet: string): string => `orbweaver-cron-${fleet}`;

const SCHEDULE_PREFIX = "orbweaver-cron-";

export const cronScheduleId = (fleet: string, cron: string): string =>
  `${SCHEDULE_PREFIX}${fleet}-${cron}`;

const TIME_END = /-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** The id that a schedule has for its workflows, of the workflow of one time, to which Temporal adds that time; undefined of any other. */
export const startedBySchedule = (workflowId: string): string | undefined =>
  workflowId.startsWith(SCHEDULE_PREFIX) && TIME_END.test(workflowId)
    ? workflowId.replace(TIME_END, "")
    : undefined;

/** Jobs of a schedule have this label, with its id. */
export const CRON_LABEL = "cron";

const NUMBER_CHARS = 8;

/** The job of one time: `nightly-20310405-030000-5d2f01ab`, in UTC; its end is the order's, so that nobody can take the id before. */
export const cronJobId = (
  { cron, number }: { readonly cron: string; readonly number: string },
  atMs: number,
): string => {
  const digits = new Date(atMs).toISOString().replaceAll(/[-:]/g, "").slice(0, 15);
  return `${cron}-${digits.replace("T", "-")}-${number.slice(0, NUMBER_CHARS)}`;
};
