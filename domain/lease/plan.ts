/** @file The plan of one scheduling cycle: a list of items; the ledger applies each item whole or refuses it with a code. */

import type { BandwidthNote } from "./bandwidth-note.ts";
import type { JobId, LeaseId } from "../values/ids.ts";
import type { GangRequest, HostGpus, RequestKey, Reservation } from "./lease.ts";
import type { PendingReason } from "./pending.ts";
import type { GBs } from "../values/units.ts";

/** At most this many items in one plan. */
export const MAX_PLAN_ITEMS = 256;

export interface PlanItem {
  readonly kind: "grant";
  readonly request: RequestKey;
  /** For a job array: the number of its gangs on these GPUs, on one host unless it is 1. Absent: the request's one gang. */
  readonly slots?: number;
  /** The GPUs; their count is the size granted. */
  readonly gpus: readonly HostGpus[];
  /** Some of the GPUs are reserved for jobs that cannot start yet (`OpportunisticTerms`). */
  readonly isOpportunistic?: true;
  /** Collective bandwidth that the pick expects, where something was measured. */
  readonly predictedGBs?: GBs;
  /** Details of the prediction, from a pick by bandwidth; absent otherwise. */
  readonly bandwidth?: BandwidthNote;
  /** One sentence for people: why here. */
  readonly reason: string;
}

/** Takes a lease's GPUs for another job, or for its own job when that may grow, and reserves them for that job. */
export interface EvictItem {
  readonly kind: "evict";
  readonly lease: LeaseId;
  /** The job that gets them: a waiting one, or the lease's own; for a headroom refill, the job that runs on the headroom's GPUs. */
  readonly forJob: JobId;
  /** The part of the lease on which its job may resume; absent when it gives up all. */
  readonly keep?: readonly HostGpus[];
  readonly lostGpuSeconds: number;
  /** One sentence for people: why this one. */
  readonly reason: string;
}

/** Reserves GPUs for a waiting job and replaces its former reservation. An empty list ends the reservation. */
export type ReserveItem = Pick<Reservation, "jobId" | "gpus" | "kind" | "usableUntilMs">;

export interface Plan {
  readonly items: readonly PlanItem[];
  /** Applied before the grants, in order; absent in plans of former rules. */
  readonly reserve?: readonly ReserveItem[];
  /** Applied after the grants, in order. */
  readonly evict?: readonly EvictItem[];
  /** Pending reasons of requests that got nothing; a request that is not named keeps its former reason. */
  readonly pending: readonly { readonly request: RequestKey; readonly reason: PendingReason }[];
  /** Decide again at this time, even without a new event (a gang timeout ends); absent when no time matters. */
  readonly wakeAtMs?: number;
  /** The work done: candidates examined, and the method that answered; `none` where no decider did, and the plan is empty. */
  readonly stats: {
    readonly method: "decide" | "baseline" | "none";
    readonly candidates: number;
  };
}

export type PendingRequest = GangRequest & {
  /** Order of arrival at the ledger; breaks ties of time. */
  readonly arrival: number;
  /** When the job was called in from its lobby; absent when it has never waited outside. */
  readonly enteredAtMs?: number;
};
