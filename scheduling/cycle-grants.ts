/**
 * @file The grants of a cycle: what is set apart starts its job, a grant is entered everywhere, arrays take what is left.
 */

import { gpuCountOf, type Lease, type Reservation } from "../domain/lease.ts";
import type { PendingRequest, PlanItem } from "../domain/plan.ts";
import { asOneGang, fillArray, joinItem } from "./array-fill.ts";
import { endAt, noteGrant } from "./capacity.ts";
import { tellWait } from "./cycle-reasons.ts";
import { isFull, RETRY_MS, wakeAt, type CycleRun } from "./cycle-run.ts";
import { checkGrant, isAcceptableSize } from "./feasibility.ts";
import { isUsable, prospectOf } from "./head-plan.ts";
import { endHead, lift, putBack } from "./heads.ts";
import { judge, type Scene } from "./judge.ts";
import { quotaLimit } from "./limits.ts";
import { noteGranted } from "./preemption.ts";
import { gpusOnLoan } from "./reserved.ts";
import { itemOf, tryStart, type Tried } from "./start.ts";
import { labelled } from "./usage.ts";

/** What is set apart and free is nobody else's: its job starts there, whatever the order. */
export function grantReserved(run: CycleRun): void {
  const { snapshot, scene, heads, options } = run;
  for (const { jobId, kind, gpus } of [...(snapshot.reservations?.values() ?? [])]) {
    const request = snapshot.requests.get(jobId);
    if (request === undefined || isFull(run)) continue;
    if (isMissingAny(gpus, scene)) continue;
    if (jobId === options.onlyFor && kind !== "keep") continue;
    const own = lift(heads, jobId);
    if (own === undefined) continue;
    const tried = tryOwn(run, request, own);
    run.candidates += tried.work;
    if (tried.kind === "grant") grant(run, request, { item: tried.item, own });
    else putBack(heads, own);
  }
}

/** Whether others have some of them, on loan or not. */
function isMissingAny(gpus: Lease["gpus"], scene: Scene): boolean {
  const { missing, lent } = prospectOf(gpus, scene);
  return missing + lent > 0;
}

/**
 * On just these GPUs, when it would get no more elsewhere. Otherwise a head is asked in its turn, because on other GPUs it might
 * pass those before it; and so it is where what those wait for may be the quota of their tenant.
 */
function tryOwn(run: CycleRun, request: PendingRequest, own: Reservation): Tried {
  const { scene, context } = run;
  const { kind, gpus } = own;
  const gang = asOneGang(request, scene);
  const isHead = kind === "head";
  const size = gpuCountOf(gpus);
  const verdict = judge(gang, scene, own);
  const { work } = verdict;
  if (isHead && (verdict.kind === "wait" || isQuotaLimited(run, request, gpus)))
    return inTurn(work);
  // Others gave these up for it: it takes them, even where it would not choose them.
  const isWhole =
    kind === "keep" || (kind === "preemption" && verdict.kind === "wait")
      ? isAcceptableSize(gang.gang, size)
      : verdict.kind === "start" && verdict.gpus === size;
  const item = isWhole ? itemOn(run, gang, own) : undefined;
  if (item !== undefined) return { kind: "grant", item, work };
  return isHead ? inTurn(work) : tryStart(gang, scene, context, { own, why: SET_APART });
}

const inTurn = (work: number): Tried => ({ kind: "wait", code: "BehindEarlierJob", work });

const SET_APART = "the GPUs were set apart for it";

/** Just what is set apart for it, if `apply` would grant it. */
function itemOn(run: CycleRun, gang: PendingRequest, own: Reservation): PlanItem | undefined {
  const { scene, context, heads, snapshot, nowMs } = run;
  const { index, usage, reserved } = scene.capacity;
  putBack(heads, own);
  const terms = { index, usage, reserved, standings: snapshot.hosts, nowMs };
  const won = { gpus: own.gpus, ...(gang.slots !== undefined && { slots: 1 }), why: SET_APART };
  const isAllowed = checkGrant(gang, won, terms) === undefined;
  const item = isAllowed ? itemOf(gang, won, scene, context) : undefined;
  lift(heads, own.jobId);
  return item;
}

function isQuotaLimited(
  { scene: { capacity } }: CycleRun,
  { tenant }: PendingRequest,
  gpus: Reservation["gpus"],
): boolean {
  const rule = capacity.index.tenants.get(tenant);
  const { places } = capacity.index;
  return gpus.some(({ host }) => {
    const type = places.get(host)?.host.gpuType;
    return type !== undefined && quotaLimit(rule, type) !== undefined;
  });
}

/** `own`: what was set apart for it, and is lifted. */
export function grant(
  run: CycleRun,
  request: PendingRequest,
  { item, own }: { readonly item: PlanItem; readonly own: Reservation | undefined },
): void {
  const { scene, heads, items, grants, granted, preemption } = run;
  const { jobId, tenant, timeLimitMs } = request;
  joinItem(items, item);
  if ((request.slots ?? 1) > 1 && !granted.has(jobId))
    run.unfilled.push({ request, gang: asOneGang(request, scene) });
  granted.add(jobId);
  const name = `grant ${grants.length}`;
  const fresh = {
    name,
    tenant,
    gpus: item.gpus,
    endAtMs: endAt(run.nowMs, item.slots === undefined ? timeLimitMs : undefined),
    ...(item.isLoan === true && {
      loan: gpusOnLoan(scene.capacity.reserved, request, { gpus: item.gpus, nowMs: run.nowMs }),
    }),
    ...labelled(jobId, request.constraints.antiAffinity),
  };
  noteGrant(scene.capacity, fresh);
  grants.push(fresh);
  run.holders.push({ jobId, tenant, gpus: item.gpus });
  if (preemption === undefined) run.grantedBefore.push({ request, gpus: item.gpus });
  else noteGranted(preemption, request, item.gpus);
  if (own?.kind === "head") endHead(heads, jobId);
  else if (own !== undefined) putBack(heads, own);
}

/** What was set apart for it may turn out to be free as it is: where GPUs kept for inference are what it takes. */
export function startHeld(run: CycleRun, request: PendingRequest): boolean {
  const { heads, scene, context } = run;
  const held = heads.now.get(request.jobId);
  if (held === undefined || isMissingAny(held.gpus, scene)) return false;
  const gang = asOneGang(request, scene);
  if (!isUsable(gang, held, scene)) return false;
  const own = lift(heads, request.jobId);
  const tried = tryStart(gang, scene, context, { ...(own && { own }) });
  run.candidates += tried.work;
  if (tried.kind === "grant") grant(run, request, { item: tried.item, own });
  else if (own !== undefined) putBack(heads, own);
  return tried.kind === "grant";
}

export function fillArrays(run: CycleRun): void {
  const { unfilled, scene, context } = run;
  for (const { request, gang } of unfilled) {
    let slots = (request.slots ?? 1) - 1;
    while (slots > 0) {
      if (isFull(run)) {
        wakeAt(run, run.nowMs + RETRY_MS);
        break;
      }
      const filled = fillArray(gang, slots, scene, context);
      run.candidates += filled.work;
      if (filled.kind === "wait") {
        tellWait(run, gang, filled.code);
        break;
      }
      grant(run, request, { item: filled.item, own: undefined });
      slots -= filled.item.slots ?? 1;
    }
  }
}
