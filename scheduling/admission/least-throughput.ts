/**
 * @file How slow a place of a rigid gang may be: a gang waits for a compact one, because it never leaves the place in which it starts.
 *
 * A gang that accepts nothing less, and is no latency class, has to reach `1 / MOST_SLOWDOWN` of the throughput of the best place that the
 * hosts in service would give it if they were idle. So every wait has an end: as leases end, a place turns up that is good enough, and a
 * reservation waits for just such a one (plan-reservation.ts). Any place will do for gangs over several clusters, whose links decide, and
 * where watts are limited. Gangs that accept less have a floor instead (gang-size.ts), and who waits for
 * an answer takes what there is.
 * Cost: O(1); O(hosts) and a placement for the best place, once for each size and change of hosts.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import { hostsOf, optionsFor, optionsNumber } from "../capacity/capacity.ts";
import { canShrink, shapeOf } from "../ledger/rules/grant-check.ts";
import { wattsLimit } from "../ledger/rules/limits.ts";
import { leastSpread } from "../placement/least-spread.ts";
import type { PlaceHost } from "../placement/place-policy.ts";
import { throughputOf } from "../placement/spread.ts";

/** Two full hosts of 8 and a half of a third are well within, 8 GPUs on two hosts (1.5) and 16 over two racks (2.2) are not. */
export const MOST_SLOWDOWN = 1.2;

interface Now {
  readonly capacity: Capacity;
  readonly nowMs: number;
}

/** Undefined where the request takes any place. */
export function leastThroughputFor(
  request: PendingRequest,
  gpus: number,
  now: Now,
): (() => number) | undefined {
  const { gang, slots } = request;
  if (gpus < 2 || slots !== undefined || request.class !== "training" || canShrink(gang))
    return undefined;
  if (isPowerLimited(now.capacity)) return undefined;
  return () => bestInService(request, gpus, now) / MOST_SLOWDOWN;
}

/** Where watts are scarce, the best place may never be had. */
const isPowerLimited = ({ index }: Capacity): boolean =>
  index.budgets.length > 0 || index.clusters.some((cluster) => wattsLimit(cluster) < Infinity);

interface Known {
  readonly hostVersion: number;
  readonly best: Map<string, number>;
}

const KNOWN = new WeakMap<Capacity, Known>();

function bestInService(request: PendingRequest, gpus: number, { capacity, nowMs }: Now): number {
  const { hostVersion, spread } = capacity;
  let known = KNOWN.get(capacity);
  if (known?.hostVersion !== hostVersion) {
    known = { hostVersion, best: new Map() };
    KNOWN.set(capacity, known);
  }
  const number = optionsNumber(capacity, request, nowMs);
  const key = `${number} ${gpus}`;
  const found = number === undefined ? undefined : known.best.get(key);
  if (found !== undefined) return found;
  const hosts = optionsFor(capacity, request, nowMs).types.flatMap((type) =>
    hostsOf(type).flatMap(({ at, serviceMask }): PlaceHost[] =>
      serviceMask === 0 ? [] : [{ at, freeMask: serviceMask }],
    ),
  );
  const { gpus: place } = leastSpread({ ...shapeOf(request.constraints), gpus }, hosts, { spread });
  const clusters = new Set((place ?? []).map(({ host }) => spread.layout.get(host)?.cluster));
  const best = place === undefined || clusters.size > 1 ? 0 : throughputOf(place, spread);
  if (number !== undefined) known.best.set(key, best);
  return best;
}
