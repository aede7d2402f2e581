/** @file What one scheduling cycle decided: a list of items, each of which the ledger applies whole or refuses with a code. */

import type { GangRequest, HostGpus, RequestKey } from "./lease.ts";
import type { PendingReason } from "./pending.ts";
import type { GBs } from "./units.ts";

/** At most this many items in one plan. */
export const MAX_PLAN_ITEMS = 256;

/** A tagged union of one kind so far; new kinds come with a higher version of `apply`. */
export interface PlanItem {
  readonly kind: "grant";
  readonly request: RequestKey;
  /** Of a job array: how many of its gangs these GPUs hold, on one host unless it is 1. Absent: the request's one gang. */
  readonly slots?: number;
  /** The GPUs; their count is the size granted. */
  readonly gpus: readonly HostGpus[];
  /** Collective bandwidth that the pick expects, where something was measured. */
  readonly predictedGBs?: GBs;
  /** One sentence for people: why here. */
  readonly reason: string;
}

export interface Plan {
  readonly items: readonly PlanItem[];
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
