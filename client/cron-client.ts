/** @file Schedules of jobs, by a submit service: it alone makes and starts them. */

import type { JobFile } from "../domain/job/job-file.ts";
import type { CronOutcome, Overlap } from "../protocol/cron.ts";
import { answered, type ServiceAddress } from "./service-request.ts";

export interface NewCron {
  readonly job: JobFile | string;
  readonly key?: string;
  readonly expression: string;
  readonly timeZone: string;
  readonly overlap: Overlap;
  /** Although the fleet would never start its jobs as it is. */
  readonly isQueuedAnyway?: boolean;
}

export interface SubmittedCron {
  readonly cron: string;
  /** False when the id had been used for the same schedule before. */
  readonly isNew: boolean;
}

export interface CronRun {
  readonly atMs: number;
  /** It waits while the submit service has not answered; what the server has forgotten or was stopped by hand is unknown. */
  readonly outcome: CronOutcome | { readonly kind: "waits" | "unknown" };
}

export interface CronList {
  /** At most 200: first those that the service has signed. */
  readonly crons: readonly ListedCron[];
  /** How many more there are; of those that it has not signed twenty are shown, and they start nothing. Absent where all are listed. */
  readonly left?: { readonly signed: number; readonly unsigned: number };
}

/** A schedule as lists show it. */
export type ListedCron = ReadCron | UnreadCron;

/** One of which nobody can read what it is to start, so that it starts nothing. */
export interface UnreadCron {
  readonly cron: string;
  readonly problem: "unreadable" | "bad job file";
}

export interface ReadCron {
  readonly cron: string;
  readonly expression: string;
  readonly timeZone: string;
  readonly overlap: Overlap;
  /** False where the service does not, or no longer, stand by its signature: its times start nothing, and all of it is its own word. */
  readonly isProven: boolean;
  /** The service had signed it until it was deleted; somebody has put it there again, or the server has kept it. */
  readonly isPutBack?: true;
  readonly user: string;
  readonly tenant: string;
  /** Of its jobs. */
  readonly name: string;
  readonly isPaused: boolean;
  /** Who has paused it, and why. */
  readonly note?: string;
  readonly nextMs?: number;
  /** Its last times, the newest first. */
  readonly runs: readonly CronRun[];
}

export interface CronClient {
  readonly submit: (cron: NewCron) => Promise<SubmittedCron>;
  readonly list: () => Promise<CronList>;
  readonly pause: (cron: string, reason?: string) => Promise<void>;
  readonly resume: (cron: string) => Promise<void>;
  /** Submits a job of it now, too. */
  readonly run: (cron: string) => Promise<void>;
  /** Revokes its signature, and deletes it. */
  readonly delete: (cron: string) => Promise<void>;
}

export function openCronClient(address: ServiceAddress): CronClient {
  // The service is of this release and of this project: its answers have these types.
  const post = async <T>(path: string, body: object): Promise<T> =>
    (await answered(address, { method: "POST", path, body })) as T;
  const order = async (cron: string, verb: string, body: object = {}): Promise<void> => {
    await post(`/v1/crons/${encodeURIComponent(cron)}/${verb}`, body);
  };
  return {
    submit: (cron) => post("/v1/crons", cron),
    list: async () => (await answered(address, { method: "GET", path: "/v1/crons" })) as CronList,
    pause: (cron, reason) => order(cron, "pause", reason === undefined ? {} : { reason }),
    resume: (cron) => order(cron, "resume"),
    run: (cron) => order(cron, "run"),
    delete: (cron) => order(cron, "delete"),
  };
}
