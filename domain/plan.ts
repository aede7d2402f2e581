/** @file What one scheduling cycle decided: a list of items, each of which the ledger applies whole or refuses with a code. */

import type { BandwidthNote } from "./bandwidth-note.ts";
import type { JobId, LeaseId } from "./ids.ts";
import type { GangRequest, HostGpus, RequestKey, Reservation } from "./lease.ts";
import type { PendingReason } from "./pending.ts";
import type { GBs } from "./units.ts";

/** At most this many items in one plan. */
export const MAX_PLAN_ITEMS = 256;

export interface PlanItem {
  readonly kind: "grant";
  readonly request: RequestKey;
  /** Of a job array: how many of its gangs these GPUs hold, on one host unless it is 1. Absent: the request's one gang. */
  readonly slots?: number;
  /** The GPUs; their count is the size granted. */
  readonly gpus: readonly HostGpus[];
  /** Some of the GPUs are set apart for jobs that cannot start yet: it has them on loan, see `Loan`. */
  readonly isLoan?: true;
  /** Collective bandwidth that the pick expects, where something was measured. */
  readonly predictedGBs?: GBs;
  /** More of the same, from a pick that looks at bandwidth; absent of others. */
  readonly bandwidth?: BandwidthNote;
  /** One sentence for people: why here. */
  readonly reason: string;
}

/** Takes a lease's GPUs for another job, or for its own when it may grow; they are reserved for that job from here on. */
export interface EvictItem {
  readonly kind: "evict";
  readonly lease: LeaseId;
  /** Who gets them: the request that waits, or the lease's own job; or who runs on what the latency reserve then gets back. */
  readonly forJob: JobId;
  /** The part of the lease that its job may go on with; absent when it gives up all. */
  readonly keep?: readonly HostGpus[];
  readonly lostGpuSeconds: number;
  /** One sentence for people: why this one. */
  readonly reason: string;
}

/** Sets GPUs apart for a job that waits; takes the place of its former reservation. None at all ends it. */
export type ReserveItem = Pick<Reservation, "jobId" | "gpus" | "kind" | "lendUntilMs">;

export interface Plan {
  readonly items: readonly PlanItem[];
  /** Applied before the grants, in order; absent in plans of former rules. */
  readonly reserve?: readonly ReserveItem[];
  /** Applied after the grants, in order. */
  readonly evict?: readonly EvictItem[];
  /** Why requests that got nothing wait; those that are not named keep their former reason. */
  readonly pending: readonly { readonly request: RequestKey; readonly reason: PendingReason }[];
  /** Decide again at this time although nothing may have happened (a gang timeout ends); absent when no clock matters. */
  readonly wakeAtMs?: number;
  /** Work done, for the record: candidates looked at, and which method answered. */
  readonly stats: { readonly method: "decide" | "baseline"; readonly candidates: number };
}

export type PendingRequest = GangRequest & {
  /** Order of arrival at the ledger; breaks ties of time. */
  readonly arrival: number;
};
