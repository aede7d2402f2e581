/** @file Why a request waits: one code, the numbers behind it, who holds what it needs, and what would wake it. */

import type { PendingCode } from "./codes.ts";
import type { JobId } from "./ids.ts";
import type { Lease } from "./lease.ts";

/** Jobs that one reason names at most. */
export const MAX_HOLDERS = 8;

export interface PendingReason {
  readonly code: PendingCode;
  /** Subject, need, found, remedy, in one or two sentences. */
  readonly message: string;
  /** The figures of the message, e.g. `{ needGpus: 16, freeGpus: 12, largestFreeHostGpus: 4 }`. */
  readonly numbers: Readonly<Record<string, number>>;
  /** Jobs that hold or claim what is needed, at most `MAX_HOLDERS`, sorted. */
  readonly holders: readonly JobId[];
  /** Events that may change the answer; never empty, or the job would wait for ever. */
  readonly wakeOn: readonly WakeEvent[];
}

export type WakeEvent =
  | "lease-released"
  | "host-ready"
  | "fleet-changed"
  | "job-released"
  | "job-resized"
  | "earlier-job-started"
  | "timer";

/** What the fleet knows of one job. */
export type FleetAnswer =
  | { readonly kind: "unknown" }
  | {
      readonly kind: "waiting";
      /** Place in the queue, from 1. */
      readonly position: number;
      /** How many requests wait in all. */
      readonly waiting: number;
      readonly requestedAtMs: number;
      readonly reason: PendingReason;
    }
  | { readonly kind: "leased"; readonly leases: readonly Lease[] };
