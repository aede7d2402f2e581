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

/** A schedule as lists show it. */
export interface ListedCron {
  readonly cron: string;
  readonly expression: string;
  readonly timeZone: string;
  readonly overlap: Overlap;
  /** False where the service does not, or no longer, stand by its signature: its times start nothing, and all of it is its own word. */
  readonly isProven: boolean;
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
  readonly list: () => Promise<readonly ListedCron[]>;
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
    async list() {
      const answer = await answered(address, { method: "GET", path: "/v1/crons" });
      return (answer as { readonly crons: readonly ListedCron[] }).crons;
    },
    pause: (cron, reason) => order(cron, "pause", reason === undefined ? {} : { reason }),
    resume: (cron) => order(cron, "resume"),
    run: (cron) => order(cron, "run"),
    delete: (cron) => order(cron, "delete"),
  };
}
