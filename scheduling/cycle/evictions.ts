/** @file The evictions of a cycle: for requests that preempt or are helped by moves, for reservations in opportunistic use, and for jobs that grow back. */

import type { Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { isServedInTurn, type WaitCode } from "../admission/feasibility.ts";
import { nextByOrderMs } from "../preemption/order-victims.ts";
import { DEFAULT_RIGHTS, mayEvictBy, planPreemption } from "../preemption/plan-preemption.ts";
import { planGrowth } from "../preemption/scale-up.ts";
import type { Right } from "../preemption/victim-choice.ts";
import { recalls } from "../reservation/opportunistic-backfill.ts";
import {
  INFERENCE_HEADROOM,
  reserveForPreemptor,
  reserveForVictim,
  type ReservationSet,
} from "../reservation/reservation-set.ts";
import { preemptibleBy } from "../reservation/access.ts";
import {
  commit,
  rollback,
  touchInTrial,
  touchOwn,
  withoutOwn,
  withTrial,
} from "../reservation/trial.ts";
import type { CycleInput } from "./cycle-input.ts";
import { move } from "./moves.ts";
import type { CycleParts } from "./parts.ts";
import type { EvictionSet } from "./plan-draft.ts";

export interface Waiting {
  readonly gang: PendingRequest;
  readonly code: WaitCode;
  /** The reservation of the request. */
  readonly own: Reservation | undefined;
}

/** The evictions or moves that let a waiting request start; undefined where none would, or the cycle may search no more. */
export function preempt(
  input: CycleInput,
  {
    plan,
    preemption,
    work,
    reservations,
  }: Pick<CycleParts, "plan" | "preemption" | "work" | "reservations">,
  { gang, code, own }: Waiting,
): EvictionSet | undefined {
  const { view, options, placeLater } = input;
  const { keepersOf } = options.ports;
  const mayHelp = isServedInTurn(code) || code === "WaitingForQuota";
  const isSettled = own !== undefined && own.kind !== "backfill" && own.kind !== "replace";
  if (!mayHelp || isSettled) return undefined;
  if (!preemption.takeSearch()) return undefined;
  const account = preemption.account();
  if (account === undefined) return undefined;
  const { place, rights = DEFAULT_RIGHTS, order } = options.policies;
  const byRight = (
    some: readonly Right[],
    behind?: ReadonlyMap<HostId, number>,
  ): EvictionSet | undefined => {
    touchOwn(reservations, gang.jobId);
    const found = planPreemption(gang, view, {
      preemption: account,
      place,
      placeLater,
      rights: some,
      ...(keepersOf && { keepersOf }),
      ...(order && { order }),
      alone: (attempt) => withoutOwn(reservations, gang.jobId, attempt),
      ...(behind && { behind }),
    });
    if (found === undefined) return undefined;
    work.spend(found.work);
    return { evict: found.evict, reserve: [found.reserve] };
  };
  const ofOthers = rights.filter((right) => right !== "order");
  const found =
    byRight(ofOthers) ??
    overReservations(reservations, gang, {
      mayEvict: () => mayEvictBy(ofOthers, gang, account),
      search: (behind) => byRight(ofOthers, behind),
    });
  if (found !== undefined) return found;
  // A job that is moved goes on at once, so moves that pay come before a job's place in the order of service.
  if (code === "TopologyPlacementFailed" && preemption.takeMoveSearch()) {
    const moves = withoutOwn(reservations, gang.jobId, () => move(input, account, gang));
    work.spend(moves?.evict.length ?? 0);
    if (moves !== undefined) return moves;
  }
  if (order === undefined || !rights.includes("order")) return undefined;
  const kind = own === undefined ? preemption.failed.kindOf(gang, order) : undefined;
  const isKnown = kind !== undefined && preemption.failed.has(kind, reservations);
  const givingWay = isKnown ? undefined : byRight(["order"]);
  if (givingWay === undefined) {
    if (kind !== undefined) preemption.failed.note(kind, reservations);
    const { victims: book } = account;
    plan.wakeAt(nextByOrderMs(gang, { ...account, order, index: book.index, book }));
  }
  return givingWay;
}

/**
 * With what is reserved for requests behind it, which then wait for other GPUs; undefined where nothing is, or no eviction would help. A search
 * that can find nobody is not made: it would only leave the reservations in another order.
 */
function overReservations(
  reservations: ReservationSet,
  gang: PendingRequest,
  {
    mayEvict,
    search,
  }: {
    readonly mayEvict: () => boolean;
    readonly search: (behind: ReadonlyMap<HostId, number>) => EvictionSet | undefined;
  },
): EvictionSet | undefined {
  const behind = preemptibleBy(reservations, gang).filter(
    ({ jobId }) => jobId !== INFERENCE_HEADROOM || gang.class === "inference",
  );
  if (behind.length === 0) return undefined;
  if (!mayEvict()) {
    const jobs = behind.map(({ jobId }) => jobId);
    touchInTrial(reservations, jobs, () => touchOwn(reservations, gang.jobId));
    return undefined;
  }
  return withTrial(reservations, (release) => {
    const masks = new Map<HostId, number>();
    for (const { jobId, gpus } of behind) {
      release(jobId);
      for (const { host, mask } of gpus) masks.set(host, (masks.get(host) ?? 0) | mask);
    }
    const found = search(masks);
    const gpus = found?.reserve.flatMap((item) => item.gpus) ?? [];
    return found === undefined ? rollback(found) : commit(found, () => gpus);
  });
}

/** Enters evictions into the plan, and reserves what they free. */
export function enterEvictions(
  { plan, reservations }: Pick<CycleParts, "plan" | "reservations">,
  found: EvictionSet,
  { snapshot: { leases } }: Pick<CycleInput, "snapshot">,
): void {
  plan.evict(found);
  for (const item of found.reserve) {
    if (item.kind === "preemption") reserveForPreemptor(reservations, item);
    else reserveForVictim(reservations, item);
  }
  for (const { lease, keep } of found.evict) {
    const victim = leases.get(lease);
    if (victim !== undefined && keep !== undefined)
      reserveForVictim(reservations, { jobId: victim.jobId, gpus: keep });
  }
}

/** Jobs that wait for nothing but GPUs in opportunistic use take them back. */
export function reclaimReserved(
  input: CycleInput,
  parts: Pick<CycleParts, "plan" | "reservations">,
): void {
  const { snapshot, view, isOpportunistic, options } = input;
  const { plan, reservations } = parts;
  if (!isOpportunistic || options.onlyFor !== undefined) return;
  const taken = new Set(plan.evictions.map(({ lease }) => lease));
  for (const { evict, reserve } of recalls(reservations, view, { ledger: snapshot, taken }))
    if (!plan.grantedJobs.has(reserve.jobId))
      enterEvictions(parts, { evict, reserve: [reserve] }, input);
}

/** Restarts of jobs that started smaller and may have their whole gang now. */
export function growShrunk(
  { cache, view, options, placeLater }: CycleInput,
  { plan, work, preemption }: Pick<CycleParts, "plan" | "work" | "preemption">,
): void {
  const { policies, method, onlyFor } = options;
  if (onlyFor !== undefined || policies.isPreempting !== true || method !== "decide") return;
  if (cache.shrunk.size === 0) return;
  const account = preemption.accountSoFar();
  if (account === undefined) return;
  const found = planGrowth(view, { preemption: account, place: placeLater });
  work.spend(found.work);
  plan.evict(found);
}
