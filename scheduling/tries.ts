/**
 * @file What was tried in a cycle and failed: what one request cannot get, none that is alike can.
 *
 * In a pass through the queue what is open only gets less, so a failure stays one. Alike are requests with the same constraints,
 * acceptable sizes and, where the tenant has a quota, tenant; and within whose reach is no more: of the GPUs that are set apart for
 * others and would be lent or left to them. Cost: O(heads) a request.
 */

import type { JobId, TenantId } from "../domain/ids.ts";
import type { Reservation } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { optionsFor } from "./capacity.ts";
import { canShrink, shrinkAtMs } from "./feasibility.ts";
import { liftable, type Heads } from "./heads.ts";
import type { Scene, Wait, WaitCode } from "./judge.ts";

/** Four of these and two bits are a number that is exact. */
const MOST = 2 ** 12;

export interface Tries {
  /** The code by which it waits, when that is known already. */
  readonly known: (request: PendingRequest) => Pick<Wait, "kind" | "code"> | undefined;
  /** It failed, on all within its reach. */
  readonly note: (request: PendingRequest, code: WaitCode) => void;
  /** Whether it failed at the smallest size that it will ever accept, so that no other of its kind can do better. */
  readonly isFinal: (request: PendingRequest) => boolean;
}

interface Failure {
  readonly code: WaitCode;
  /** Whose GPUs were within reach when it failed; several where none holds another. */
  readonly reaches: (readonly JobId[])[];
}

/** `lenders`: who would lend GPUs to a request besides. */
export function openTries(
  { capacity, nowMs }: Scene,
  heads: Heads,
  lenders: (request: PendingRequest) => readonly Reservation[],
): Tries {
  const failures = new Map<number | string, Failure>();
  /** Numbers of tenants with a quota. */
  const tenants = new Map<TenantId, number>();
  return { known, note, isFinal };

  function known(request: PendingRequest): Pick<Wait, "kind" | "code"> | undefined {
    const key = keyOf(request);
    const failure = key === undefined ? undefined : failures.get(key);
    if (failure === undefined) return undefined;
    const { code, reaches } = failure;
    const reach = reachOf(request);
    const isKnown =
      reach.length === 0 ||
      reaches.some((other) => reach.every(({ jobId }) => other.includes(jobId)));
    return isKnown ? { kind: "wait", code } : undefined;
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
    return [...liftable(heads, request), ...lenders(request)];
  }

  function isFinal(request: PendingRequest): boolean {
    return !canShrink(request.gang) || nowMs >= shrinkAtMs(request);
  }

  /** A number where the parts are small enough to be put into one, which is found sooner than a text. */
  function keyOf(request: PendingRequest): number | string | undefined {
    const { number } = optionsFor(capacity, request, nowMs);
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
