/**
 * @file One pass through the line: whose turn it is, whether it starts, and what is set apart for it when it does not.
 *
 * Where reasons are not asked for, whole kinds of requests are passed over, and the pass ends when nothing is left that anybody could
 * use. Cost: O(log n) for the queue of n and O(clusters) to judge each kind, O(hosts) and the placement policy's own a grant.
 */

import type { JobId } from "../domain/ids.ts";
import { gpuCountOf, type Reservation } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { asOneGang } from "./array-fill.ts";
import { fewestGpus, leastLimitMs } from "./brain.ts";
import { claimQuota, dropClaims } from "./claims.ts";
import { preempt } from "./cycle-evictions.ts";
import { grant, startHeld } from "./cycle-grants.ts";
import { tellNew, tellWait } from "./cycle-reasons.ts";
import {
  factsOf,
  gpusNow,
  isFull,
  isLending,
  RETRY_MS,
  wakeAt,
  type CycleRun,
} from "./cycle-run.ts";
import { canShrink, smallestSize } from "./feasibility.ts";
import {
  endHead,
  freeGpusIn,
  hasRoom,
  holdFor,
  keepsForInference,
  lift,
  liftable,
  mayLift,
  putBack,
  setApartFor,
  settleLifted,
} from "./heads.ts";
import {
  isServedInTurn,
  leastSizeNow,
  quotaWish,
  waitOf,
  wakeAtOf,
  type WaitCode,
} from "./judge.ts";
import { mayBorrow } from "./loan-terms.ts";
import { asLoan, lendersFor } from "./loans.ts";
import { describeWait } from "./pending-reason.ts";
import { isDismissing } from "./policies.ts";
import type { Turn } from "./queue/queue-policy.ts";
import { tryStart, type Tried } from "./start.ts";
import { openTries } from "./tries.ts";

/** When nothing is free but what may be lent, so many requests are asked whether they are short enough. */
const LENT_TRIES = 200;
/** When nothing is left to grant, so many requests from the front are told why they wait, and whoever was never told. */
const TOLD_AFRESH = 1_000;

/** `pass`: 1 for the first of the cycle. */
export function walkLine(run: CycleRun, pass: number): void {
  const { brain, scene, context, heads, granted, pending, telling, snapshot, nowMs, options } = run;
  const { policies, limits, onlyFor } = options;
  // The first pass has told everybody, or as many as it may.
  const isTellingNow = run.isTelling && (pass === 1 || onlyFor !== undefined);
  const turn = brain.queue.order(nowMs, factsOf(run));
  const tries = openTries(scene, heads, (gang) => lendersOf(run, gang));
  const openKinds = unvisitedHeads(run);
  const fewest = fewestGpus(brain);
  let seen = 0;
  let lentTries = 0;
  /** Of the heads, when kinds were last dismissed while some heads had not had their turn; absent: none were. */
  let dismissedAt: number | undefined;
  let isClosed = false;
  // Reasons are told of the fleet without what is set apart for the job itself.
  const isEager = run.isTelling || onlyFor !== undefined || policies.backfill === "none";
  for (let request = turn.next(); request !== undefined; request = next()) {
    seen += 1;
    const { jobId } = request;
    if (granted.has(jobId)) continue;
    if (isFull(run)) {
      wakeAt(run, nowMs + RETRY_MS);
      if (onlyFor === undefined) return;
      if (jobId === onlyFor) {
        run.position = seen;
        return;
      }
      continue;
    }
    if (!isTellingNow && isOver()) return;
    if (pass > 1 && onlyFor === undefined && isIdle()) return;
    if (isTellingNow && onlyFor === undefined && isTold(seen)) {
      if (isOver()) {
        tellNew(run);
        return;
      }
      // Nobody here can start any more; heads may still find something that is ready sooner.
      if (!openKinds.has(jobId) && isIdle()) continue;
    }
    const gang = asOneGang(request, scene);
    dropClaims(scene.claims, gang);
    const own = isEager ? lift(heads, jobId) : setApartFor(heads, jobId);
    if (heads.now.has(jobId)) heads.visited.add(jobId);
    openKinds.delete(jobId);
    const known = own === undefined ? tries.known(gang) : undefined;
    const tried = isClosed
      ? closed(gang, own)
      : known
        ? { ...known, work: 1 }
        : own !== undefined && !isEager
          ? tryLate(run, gang, own)
          : tryAll(run, gang, own);
    run.candidates += tried.work;
    if (tried.kind === "grant") {
      grant(run, request, { item: tried.item, own });
      turn.noteGrant(request, gpuCountOf(tried.item.gpus));
      if (jobId !== onlyFor) continue;
      run.position = seen;
      return;
    }
    const isHelped = preempt(run, gang, { code: tried.code, own });
    const code = isHelped ? "WaitingForPreempted" : tried.code;
    wakeAt(run, wakeAtOf(gang, code, nowMs));
    if (jobId === onlyFor) {
      run.answer = describeWait(gang, code, telling);
      run.position = seen;
      if (own !== undefined && code === tried.code) putBack(heads, own);
      return;
    }
    if (own === undefined && known === undefined) tries.note(gang, tried.code);
    tellWait(run, gang, code);
    if (code === tried.code) {
      hold(run, gang, { code, own });
      if (startHeld(run, request)) {
        if (pending.at(-1)?.request.jobId === jobId) pending.pop();
        continue;
      }
    }
    if (policies.backfill === "none" && isServedInTurn(code)) {
      isClosed = true;
      telling.first ??= jobId;
      if (!run.isTelling && onlyFor === undefined) return;
    }
    if (isDismissing(options)) dismiss(turn, gang);
  }
  if (onlyFor !== undefined) run.position = seen;

  function next(): PendingRequest | undefined {
    if (dismissedAt !== undefined && dismissedAt !== heads.renewals) {
      turn.recall();
      dismissedAt = undefined;
    }
    return turn.next();
  }

  /** The plan holds all the reasons that it can, or those behind here are told when they come nearer. */
  function isTold(visited: number): boolean {
    return pending.length >= limits.maxReasons || visited > TOLD_AFRESH;
  }

  /** Nothing is left that anybody who waits could use. */
  function isOver(): boolean {
    if (openKinds.size > 0 || mayUse(fewest)) return false;
    if (!mayGet()) return true;
    lentTries += 1;
    return lentTries > LENT_TRIES;
  }

  /** Not one GPU is left for anybody, not even to add to what is set apart for a head. */
  function isIdle(): boolean {
    return !mayUse(1) && !mayGet();
  }

  /** Whether so many GPUs are open, or could be set apart. */
  function mayUse(gpus: number): boolean {
    return gpusNow(run).open >= gpus || (hasRoom(heads) && gpusNow(run).reservable >= gpus);
  }

  /** Whether others might lend, leave or give up GPUs. */
  function mayGet(): boolean {
    const isForInference = keepsForInference(heads) && brain.inference.size > 0;
    return isForInference || run.preemptionsLeft > 0 || mayLift(heads, 0) || mayLend();
  }

  /**
   * The others of its kind would get no more. While heads are still to come, those stay, and what they change may help the others; nor
   * must there be anything that the others would do but wait.
   */
  function dismiss(ofTurn: Turn, gang: PendingRequest): void {
    if (hasRoom(heads) || !tries.isFinal(gang)) return;
    const isEarly = openKinds.size > 0;
    if (isEarly && (canShrink(gang.gang) || run.preemptionsLeft > 0)) return;
    if (mayLift(heads, leastLimitMs(gang), gang.class) || mayLend()) return;
    const stays = [...openKinds].flatMap((job) => snapshot.requests.get(job) ?? []);
    ofTurn.dismiss(gang, stays);
    if (isEarly) dismissedAt = heads.renewals;
  }

  function mayLend(): boolean {
    return isLending(run) && lendersFor(heads, scene).length > 0;
  }

  /** Nobody passes the one that waits. */
  function closed(gang: PendingRequest, own: Reservation | undefined): Tried {
    const tried = tryStart(gang, scene, context, own && { own });
    return tried.kind === "wait"
      ? tried
      : { kind: "wait", code: "BehindEarlierJob", work: tried.work };
  }
}

/** Heads whose turn is still to come: their kinds are not passed over before. */
const unvisitedHeads = ({ heads, snapshot, granted }: CycleRun): Set<JobId> =>
  new Set([...heads.now.keys()].filter((job) => snapshot.requests.has(job) && !granted.has(job)));

/** The same, with what is set apart for it taken off only where that could be enough for anything. */
function tryLate(run: CycleRun, gang: PendingRequest, own: Reservation): Tried {
  const { scene, heads, nowMs } = run;
  const open = gpusNow(run).open + freeGpusIn(heads, own);
  if (open < leastSizeNow(gang, nowMs)) {
    const wait = waitOf(gang, scene, own);
    if (!isServedInTurn(wait.code)) return wait;
    const lifted = [...liftable(heads, gang), ...lendersOf(run, gang)];
    const reach = lifted.reduce((sum, each) => sum + freeGpusIn(heads, each), open);
    if (lifted.length === 0 || reach < smallestSize(gang.gang)) return wait;
  }
  lift(heads, gang.jobId);
  return tryAll(run, gang, own);
}

/** On what is open to all; then on what others would lend or leave to it. */
function tryAll(run: CycleRun, gang: PendingRequest, own: Reservation | undefined): Tried {
  const { scene, context, heads } = run;
  const plain = tryStart(gang, scene, context, own && { own });
  if (plain.kind === "grant" || !isServedInTurn(plain.code)) return plain;
  const lifted = liftable(heads, gang);
  const reach = lifted.reduce((sum, each) => sum + freeGpusIn(heads, each), gpusNow(run).open);
  if (lifted.length === 0 || reach < smallestSize(gang.gang))
    return tryLoan(run, gang, own) ?? plain;
  for (const { jobId } of lifted) lift(heads, jobId);
  const why = "next in the queue, on GPUs that an earlier job does not need yet";
  const tried = tryStart(gang, scene, context, { ...(own && { own }), why });
  if (tried.kind === "grant") {
    settleLifted(heads, lifted, { request: gang, gpus: tried.item.gpus });
    return tried;
  }
  for (const reservation of [...lifted].reverse()) putBack(heads, reservation);
  return tryLoan(run, gang, own) ?? { ...plain, work: plain.work + tried.work };
}

/** Heads that would lend it what waits idle for them. */
const lendersOf = (run: CycleRun, gang: PendingRequest): readonly Reservation[] =>
  isLending(run) && mayBorrow(gang) ? lendersFor(run.heads, run.scene, gang) : [];

/** On what waits idle for heads, too. */
function tryLoan(
  run: CycleRun,
  gang: PendingRequest,
  own: Reservation | undefined,
): Tried | undefined {
  const { scene, context, heads } = run;
  const lenders = lendersOf(run, gang);
  const reach = lenders.reduce((sum, each) => sum + freeGpusIn(heads, each), gpusNow(run).open);
  if (lenders.length === 0 || reach < smallestSize(gang.gang)) return undefined;
  for (const { jobId } of lenders) lift(heads, jobId);
  const why = "on loan until those can start for whom they are set apart";
  const tried = tryStart(gang, scene, context, { ...(own && { own }), why });
  for (const reservation of [...lenders].reverse()) putBack(heads, reservation);
  return tried.kind === "grant" ? { ...tried, item: asLoan(tried.item, gang, scene) } : undefined;
}

/** Sees to what is set apart for a request that waits, and to what it claims of its tenant's quota. */
function hold(
  { scene, heads, options: { policies } }: CycleRun,
  gang: PendingRequest,
  { code, own }: { readonly code: WaitCode; readonly own: Reservation | undefined },
): void {
  if (code === "WaitingForQuota" && !scene.claims.has(gang.tenant))
    claimQuota(scene.claims, gang, quotaWish(gang, scene));
  if (isServedInTurn(code) || (own !== undefined && own.kind !== "head")) {
    if (own === undefined && !hasRoom(heads)) return;
    if (holdFor(heads, gang, { own, scene, place: policies.place }))
      claimQuota(scene.claims, gang, quotaWish(gang, scene));
  } else if (own !== undefined) endHead(heads, own.jobId);
}
