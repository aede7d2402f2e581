/**
 * @file Starts jobs on the GPUs that are reserved for them, as soon as all of those are free.
 *
 * Reserved GPUs are no other job's, so these starts come before the admission pass, in the order of the reservations. A job with a backfill
 * reservation starts only on just those GPUs, and only where it would get no more elsewhere; else it is nominated in queue order, because on
 * other GPUs it might pass earlier jobs. The same holds where its tenant has a quota that earlier jobs may wait for. A job whose GPUs are
 * ready takes others of the same number instead where a bandwidth model says that those are faster: it starts now either way. A gang that has lost a
 * host needs other GPUs besides (mended-start.ts).
 * Cost: O(reservations) and a feasibility check each.
 */

import { gpuCountOf, type Lease, type Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest, PlanItem } from "../../domain/lease/plan.ts";
import { checkFeasibility, type CycleView } from "../admission/feasibility.ts";
import { asOneGang } from "../admission/fill-arrays.ts";
import { itemOf, tryStart, type Tried } from "../admission/try-start.ts";
import { checkGrant, isAcceptableSize } from "../ledger/rules/grant-check.ts";
import { quotaLimit } from "../ledger/rules/limits.ts";
import { fitOf, isUsable } from "../reservation/plan-reservation.ts";
import { reservationOf } from "../reservation/reservation-set.ts";
import { withoutOwn } from "../reservation/trial.ts";
import { admit } from "./admit.ts";
import type { CycleInput } from "./cycle-input.ts";
import { tryMended } from "./mended-start.ts";
import { isAtLimit, type CycleParts } from "./parts.ts";

type StartParts = Pick<CycleParts, "plan" | "work" | "reservations" | "preemption">;

const RESERVED = "the GPUs were reserved for it";
const SWAPPED = "its turn, on faster GPUs than those that were reserved for it";
/** Below this a reserved place is kept. */
const SWAP_GAIN = 1.01;

export function startReserved(input: CycleInput, parts: StartParts): void {
  const { snapshot, view, options } = input;
  const { work, reservations } = parts;
  const all = [...(snapshot.reservations?.values() ?? [])];
  // Gangs that mend themselves go first: what they lack may be reserved for others.
  const mending = all.filter(({ kind }) => kind === "replace");
  const others = mending.length === 0 ? all : all.filter(({ kind }) => kind !== "replace");
  for (const { jobId, kind, gpus } of [...mending, ...others]) {
    const request = snapshot.requests.get(jobId);
    if (request === undefined || isAtLimit(parts)) continue;
    if (isMissingAny(gpus, view)) continue;
    if (jobId === options.onlyFor && kind !== "keep" && kind !== "replace") continue;
    const own = reservationOf(reservations, jobId);
    if (own === undefined) continue;
    const tried = tryReserved(input, parts, { request, own });
    work.spend(tried.work);
    if (tried.kind === "grant") admit(parts, request, tried.item);
  }
}

/** A reservation of this cycle may turn out to be free at once, where it took GPUs from the inference headroom. */
export function startJustReserved(
  { view, context }: CycleInput,
  parts: StartParts,
  request: PendingRequest,
): boolean {
  const { reservations, work } = parts;
  const own = reservations.backfill.get(request.jobId);
  if (own === undefined || isMissingAny(own.gpus, view)) return false;
  const gang = asOneGang(request, view);
  if (!isUsable(gang, own, view)) return false;
  const tried = withoutOwn(reservations, own.jobId, () => tryStart(gang, view, context, { own }));
  work.spend(tried.work);
  if (tried.kind === "grant") admit(parts, request, tried.item);
  return tried.kind === "grant";
}

/** Whether other jobs run on some of them, opportunistically or not. */
function isMissingAny(gpus: Lease["gpus"], view: CycleView): boolean {
  const { missing, opportunistic } = fitOf(gpus, view);
  return missing + opportunistic > 0;
}

interface Reserved {
  readonly request: PendingRequest;
  readonly own: Reservation;
}

function tryReserved(
  input: CycleInput,
  { reservations }: Pick<CycleParts, "reservations">,
  { request, own }: Reserved,
): Tried {
  const { view, context } = input;
  const { jobId, kind, gpus } = own;
  const gang = asOneGang(request, view);
  if (kind === "replace") return tryMended(input, reservations, { request: gang, own });
  const size = gpuCountOf(gpus);
  const fit = withoutOwn(reservations, jobId, () => checkFeasibility(gang, view, own));
  const { work } = fit;
  const isBackfill = kind === "backfill";
  if (isBackfill && (fit.kind === "wait" || isQuotaLimited(request, gpus, view)))
    return inQueueOrder(work);
  // Evictions freed these GPUs for the job: it takes them, even where it would not choose them.
  const isWhole =
    kind === "keep" || (kind === "preemption" && fit.kind === "wait")
      ? isAcceptableSize(gang.gang, size)
      : fit.kind === "start" && fit.gpus === size;
  const item = isWhole ? itemOn(input, gang, own) : undefined;
  if (item !== undefined) {
    const faster =
      kind === "keep" ? undefined : fasterStart(input, reservations, { gang, own, item });
    return faster ?? { kind: "grant", item, work };
  }
  if (isBackfill) return inQueueOrder(work);
  return withoutOwn(reservations, jobId, () =>
    tryStart(gang, view, context, { own, why: RESERVED }),
  );
}

const inQueueOrder = (work: number): Tried => ({ kind: "wait", code: "BehindEarlierJob", work });

/** A grant of just the reserved GPUs, if `apply` would make it. */
function itemOn(
  { view, context, snapshot, nowMs }: CycleInput,
  gang: PendingRequest,
  { gpus }: Reservation,
): PlanItem | undefined {
  const { index, usage, reserved } = view.capacity;
  const terms = { index, usage, reserved, hostStatuses: snapshot.hosts, nowMs };
  const won = { gpus, ...(gang.slots !== undefined && { slots: 1 }), why: RESERVED };
  const isAllowed = checkGrant(gang, won, terms) === undefined;
  return isAllowed ? itemOf(gang, won, view, context) : undefined;
}

/**
 * The same gang on GPUs that are faster than the reserved ones by `SWAP_GAIN`: they became free later, and are reserved for nobody. The job
 * starts either way, and leaves as many GPUs to the others. Undefined where no model knows better.
 */
function fasterStart(
  { view, context }: CycleInput,
  reservations: StartParts["reservations"],
  {
    gang,
    own,
    item,
  }: { readonly gang: PendingRequest; readonly own: Reservation; readonly item: PlanItem },
): Tried | undefined {
  const reservedGbs = item.bandwidth?.predictedGbs;
  if (context.bandwidth === undefined || reservedGbs === undefined) return undefined;
  const tried = withoutOwn(reservations, own.jobId, () =>
    tryStart(gang, view, context, { own, why: SWAPPED }),
  );
  if (tried.kind === "wait" || gpuCountOf(tried.item.gpus) !== gpuCountOf(item.gpus))
    return undefined;
  const { predictedGbs = 0 } = tried.item.bandwidth ?? {};
  return predictedGbs > reservedGbs * SWAP_GAIN ? tried : undefined;
}

function isQuotaLimited(
  { tenant }: PendingRequest,
  gpus: Reservation["gpus"],
  { capacity: { index } }: CycleView,
): boolean {
  const rule = index.tenants.get(tenant);
  return gpus.some(({ host }) => {
    const type = index.places.get(host)?.host.gpuType;
    return type !== undefined && quotaLimit(rule, type) !== undefined;
  });
}
