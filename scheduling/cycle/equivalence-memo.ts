/**
 * @file Equivalence cache of one pass: a request equivalent to one that failed is not evaluated again.
 *
 * In a pass through the queue open GPUs only become fewer, so a failure stays one. Equivalent requests have the same constraints, acceptable
 * sizes and, where the tenant has a quota, tenant, and no more reservations of other jobs are open to them. Cost: O(reservations) a request.
 */

import type { JobId, TenantId } from "../../domain/values/ids.ts";
import type { Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { optionsNumber } from "../capacity/capacity.ts";
import { canShrink, shrinkAtMs } from "../ledger/rules/grant-check.ts";
import { reservationsOpenTo } from "../reservation/access.ts";
import type { ReservationSet } from "../reservation/reservation-set.ts";
import type { CycleView, WaitCode } from "../admission/feasibility.ts";

/** Four of these and two bits are a number that is exact. */
const MOST = 2 ** 12;

export interface EquivalenceMemo {
  /** The code by which it waits, when that is known already. */
  readonly known: (request: PendingRequest) => WaitCode | undefined;
  /** It failed, on all GPUs that it could use. */
  readonly note: (request: PendingRequest, code: WaitCode) => void;
  /** Whether it failed at the smallest size that it will ever accept, so that no other of its kind can do better. */
  readonly isFinal: (request: PendingRequest) => boolean;
}

interface Failure {
  readonly code: WaitCode;
  /** Jobs whose reserved GPUs it could use when it failed; several lists where none contains another. */
  readonly reaches: (readonly JobId[])[];
}

/** `opportunistic`: further reservations that a request may use. */
export function openEquivalenceMemo(
  { capacity, nowMs }: CycleView,
  reservations: ReservationSet,
  opportunistic: (request: PendingRequest) => readonly Reservation[],
): EquivalenceMemo {
  const failures = new Map<number | string, Failure>();
  /** Numbers of tenants with a quota. */
  const tenants = new Map<TenantId, number>();
  return { known, note, isFinal };

  function known(request: PendingRequest): WaitCode | undefined {
    const key = keyOf(request);
    const failure = key === undefined ? undefined : failures.get(key);
    if (failure === undefined) return undefined;
    const { code, reaches } = failure;
    const reach = reachOf(request);
    const isKnown =
      reach.length === 0 ||
      reaches.some((other) => reach.every(({ jobId }) => other.includes(jobId)));
    return isKnown ? code : undefined;
  }

  function note(request: PendingRequest, code: WaitCode): void {
    const key = keyOf(request);
    if (key === undefined) return;
    const reach = reachOf(request).map(({ jobId }) => jobId);
    const failure = failures.get(key);
    if (failure === undefined) failures.set(key, { code, reaches: [reach] });
    else failure.reaches.push(reach);
  }

  function reachOf(request: PendingRequest): readonly Reservation[] {
    const open = reservationsOpenTo(reservations, request);
    const further = opportunistic(request);
    return further.length === 0 ? open : [...open, ...further];
  }

  function isFinal(request: PendingRequest): boolean {
    return !canShrink(request.gang) || nowMs >= shrinkAtMs(request);
  }

  /** A number where the parts are small enough to be put into one, which is found sooner than a text. */
  function keyOf(request: PendingRequest): number | string | undefined {
    const number = optionsNumber(capacity, request, nowMs);
    if (number === undefined) return undefined;
    const { gang, slots } = request;
    const { gpus, shapes } = gang;
    const least = canShrink(gang) ? gang.min : 0;
    const isShrunk = least > 0 && nowMs >= shrinkAtMs(request) ? 1 : 0;
    const isArray = slots === undefined ? 0 : 1;
    const ofTenant = tenantNumber(request.tenant);
    if (shapes === undefined && number < MOST && gpus < MOST && least < MOST && ofTenant < MOST)
      return (
        (((number * MOST + gpus) * MOST + least) * MOST + ofTenant) * 4 + 2 * isShrunk + isArray
      );
    return `${number} ${gpus} ${least} ${ofTenant} ${isShrunk} ${isArray} ${shapes?.join() ?? ""}`;
  }

  /** 0: its quota limits it in nothing. */
  function tenantNumber(tenant: TenantId): number {
    if (!capacity.index.tenants.has(tenant)) return 0;
    const known = tenants.get(tenant);
    if (known !== undefined) return known;
    tenants.set(tenant, tenants.size + 1);
    return tenants.size;
  }
}
