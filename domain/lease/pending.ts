/** @file Why a request waits: one code, its numbers, the jobs that hold the GPUs it needs, and the events that would wake it. */

import type { PendingCode } from "../values/codes.ts";
import type { JobId } from "../values/ids.ts";
import type { Lease } from "./lease.ts";

/** Jobs that one reason names at most. */
export const MAX_HOLDERS = 8;

export interface PendingReason {
  readonly code: PendingCode;
  /** Subject, need, found, remedy, in one or two sentences. */
  readonly message: string;
  /** The figures of the message, e.g. `{ needGpus: 16, freeGpus: 12, largestFreeHostGpus: 4 }`. */
  readonly numbers: Readonly<Record<string, number>>;
  /** Jobs that hold or claim the needed GPUs, at most `MAX_HOLDERS`, sorted. */
  readonly holders: readonly JobId[];
  /** Events that may change the answer; never empty, or the job would wait for ever. */
  readonly wakeOn: readonly WakeEvent[];
}

export type WakeEvent =
  | "lease-released"
  | "predecessor-changed"
  | "host-ready"
  | "fleet-changed"
  | "job-released"
  | "job-resized"
  | "earlier-job-started"
  | "timer";

/** The fleet's view of one job. Its place in the queue is that of the queue's order (`placesInQueue`), which a reader of the ledger computes. */
export type FleetAnswer =
  | { readonly kind: "unknown" }
  | {
      readonly kind: "waiting";
      /** Number of waiting requests. */
      readonly waiting: number;
      readonly requestedAtMs: number;
      readonly reason: PendingReason;
    }
  | { readonly kind: "leased"; readonly leases: readonly Lease[] };
