/**
 * @file What a scheduling cycle reads: the ledger, the clock, the policies, the ports and the limits. No part of it is replaced in a cycle.
 *
 * The capacity and the quota claims in `view` change with what the cycle decides, by their own functions alone. The other parts that change
 * have one owner each: the plan (plan-draft.ts), the work (work-budget.ts), reservations (reservation-set.ts), reports (wait-reports.ts)
 * and preemption (preemption-budget.ts).
 */

import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { PendingRequest, Plan } from "../../domain/lease/plan.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { CycleView } from "../admission/feasibility.ts";
import { withinReach } from "../admission/reachable-placement.ts";
import type { DecidePorts, StartContext } from "../admission/try-start.ts";
import { deadPairs } from "../capacity/site-links.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { PlacePolicy } from "../placement/place-policy.ts";
import { mayBackfillOn } from "../ledger/rules/opportunistic-terms.ts";
import { openBandwidth } from "./bandwidth.ts";
import { openLinks, withLinks } from "./links.ts";
import { openPrices } from "./prices.ts";
import { placeFor, type CycleLimits, type Policies } from "./policies.ts";
import type { SchedulerCache } from "./scheduler-cache.ts";

export interface CycleOptions {
  readonly policies: Policies;
  readonly ports: DecidePorts;
  readonly limits: CycleLimits;
  readonly method: Plan["stats"]["method"];
  /** The cycle ends at this job's request and says why it waits. */
  readonly onlyFor?: JobId;
}

/** Pause before the next cycle looks at what this one left out. */
export const RETRY_MS = 1_000;

export interface CycleNow {
  readonly snapshot: Ledger;
  readonly nowMs: number;
}

export interface CycleInput extends CycleNow {
  readonly cache: SchedulerCache;
  /** Its placement policy knows of the links between clusters. */
  readonly options: CycleOptions;
  readonly view: CycleView;
  readonly context: StartContext;
  /** The policy for places that are held until GPUs are free: it looks at bandwidths too, within what plans may cost. */
  readonly placeLater: PlacePolicy;
  /** Whether jobs may use reserved GPUs until their owner can start, and are evicted then. */
  readonly isOpportunistic: boolean;
  /** Whether waiting requests are told why they wait. */
  readonly isReporting: boolean;
}

/** `granted`: the gangs that the cycle has started; it grows while the cycle goes on. */
export function openCycleInput(
  cache: SchedulerCache,
  { snapshot, nowMs }: CycleNow,
  { asked, granted }: { readonly asked: CycleOptions; readonly granted: readonly Gang[] },
): CycleInput {
  const links = openLinks(snapshot, { nowMs, granted });
  const { ports, limits, method, policies } = asked;
  const chosen = placeFor(policies, snapshot.shape);
  const place = withinReach(withLinks(chosen, links), deadPairs(snapshot, nowMs));
  const bandwidth = openBandwidth(ports, { leases: snapshot.leases, granted });
  return {
    cache,
    snapshot,
    nowMs,
    options: { ...asked, policies: { ...policies, place } },
    view: { capacity: cache.capacity, claims: new Map(), nowMs },
    context: {
      snapshot,
      place,
      ports,
      ...(bandwidth && { bandwidth: bandwidth.starting, planning: bandwidth.planning }),
      ...(links && { links }),
      ...(ports.pricesOf && { prices: openPrices(ports.pricesOf) }),
    },
    placeLater:
      bandwidth === undefined
        ? place
        : (demand, hosts, known) =>
            place(demand, hosts, { ...known, bandwidth: bandwidth.planning }),
    isOpportunistic:
      policies.isOpportunistic === true &&
      method === "decide" &&
      (snapshot.shape.policy ?? DEFAULT_POLICY).isPreempting,
    isReporting: limits.maxReasons > 0,
  };
}

type Gang = Pick<Lease, "gpus">;

/** Whether the request may be granted GPUs that are reserved for a job that waits for others. */
export const mayRunOpportunistically = (
  { isOpportunistic }: CycleInput,
  request: PendingRequest,
): boolean => isOpportunistic && mayBackfillOn(request);
