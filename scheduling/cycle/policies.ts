/**
 * @file The policies and limits of a cycle: the queue's order, backfill, placement, and the work that a cycle may do.
 */

import { DEFAULT_POLICY, type FleetPlacement, type FleetShape } from "../../domain/fleet/fleet.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { ReservationRule } from "../reservation/reservation-set.ts";
import type { PlacePolicy } from "../placement/place-policy.ts";
import type { Right } from "../preemption/victim-choice.ts";
import type { QueuePolicy } from "../queue/queue-policy.ts";
import type { ServiceOrder } from "../queue/service-order.ts";

/**
 * Which requests may pass one that cannot start. `none`: none, the cycle ends with it. `easy`: those that do not delay the first such
 * request, by the time limits that users state. `persistent`: the same for the first few, whose reservations last from cycle to cycle.
 * `patient`: as `persistent`, but a request with checkpoints and without a time limit reserves only after it has waited for `PATIENCE_MS` and
 * the delay of its level of service.
 * `conservative`: those that delay none of the earlier ones. `unreserved`: all; a large gang may wait for ever.
 */
export type Backfill = "none" | "easy" | "conservative" | "persistent" | "patient" | "unreserved";

export interface Policies {
  readonly queue: QueuePolicy;
  readonly backfill: Backfill;
  readonly place: PlacePolicy;
  /** Those that a fleet's own policy may name instead of `place`. */
  readonly placements?: Readonly<Record<FleetPlacement, PlacePolicy>>;
  /** Whether jobs are evicted for requests that are due, and shrunk jobs may grow again; the fleet's own policy may forbid it. */
  readonly isPreempting?: true;
  /** By which rights; `DEFAULT_RIGHTS` when absent. */
  readonly rights?: readonly Right[];
  /** The order of service by which a job gives way to another, for the right of that name. */
  readonly order?: ServiceOrder;
  /** Whether reserved GPUs that wait idle serve jobs that can be evicted at once; only where jobs are evicted at all. */
  readonly isOpportunistic?: true;
  /** Whether free GPUs are reserved for inference jobs to come. */
  readonly hasInferenceHeadroom?: true;
  /** Of a rival: natural ends keep this part of the fleet free for inference, whatever its demand; nobody is evicted for it. */
  readonly fixedHeadroomShare?: number;
}

export interface CycleLimits {
  /** Offers and hosts that a cycle may look at. */
  readonly maxCandidates: number;
  /** Reasons in one plan: each is some hundred bytes of history. 0: the cycle reports nothing. */
  readonly maxReasons: number;
  /** Requests at the front of the queue whose figures stay fresh; the others are told of a new code only. */
  readonly freshReasons: number;
}

/** The placement that a fleet has chosen among those of the policies. */
export function placeFor(
  { place, placements }: Pick<Policies, "place" | "placements">,
  { policy = DEFAULT_POLICY }: Pick<FleetShape, "policy">,
): PlacePolicy {
  return (policy.placement && placements?.[policy.placement]) ?? place;
}

/** Of requests without time limits: decisions 66 and 87. */
const PATIENCE_MS = 72 * 3_600_000;

/** Why three reservations and whole places only: decision 42. */
export const RESERVATION_RULES: Readonly<Record<Backfill, ReservationRule>> = {
  none: { most: 0, isKept: false, holdsParts: false },
  unreserved: { most: 0, isKept: false, holdsParts: false },
  easy: { most: 1, isKept: false, holdsParts: true },
  conservative: { most: 64, isKept: false, holdsParts: true },
  persistent: { most: 3, isKept: true, holdsParts: false },
  patient: { most: 3, isKept: true, holdsParts: false, patienceMs: PATIENCE_MS },
};

/** Whether a cycle may pass over kinds of requests: not where it reports why each waits, or was asked about one. */
export const isDismissing = ({
  limits,
  onlyFor,
}: {
  readonly limits: CycleLimits;
  readonly onlyFor?: JobId;
}): boolean => limits.maxReasons === 0 && onlyFor === undefined;
