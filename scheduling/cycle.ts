/**
 * @file One scheduling cycle: asks the queue who is next, and for each whether it starts now, and on which GPUs.
 *
 * A request that cannot start although the end of leases would help it may become a *head*: exact GPUs are set apart for it
 * (heads.ts), kept from cycle to cycle, and later ones may use the rest only, or what delays no head. Nobody starves while run times
 * are bounded by T, grants of one tenant do not push back another's for ever (queue-policy.ts), and hosts stay up:
 *   1. The queue brings every request R to the front in bounded time Q. Then R starts, or becomes a head, or waits until one of the
 *      at most H heads starts and leaves it its place, or until its tenant has ended enough leases, whose quota it claims.
 *   2. A head yields to nobody after YIELD_MS. From then on its GPUs are granted to those alone whose time limits end before the last
 *      of its GPUs is free; that time only ever comes nearer; so it starts at most T later. The first of H heads in a row waits for
 *      no other, the k-th at most for k−1 before it.
 *   Together: R starts within Q + (H + 1) · (YIELD_MS + T).
 * Requests that no end of a lease would help hold nothing, so they delay nobody.
 * A job array stands in line with one gang, its first missing one. What is left when everybody had a try, set apart for nobody, goes
 * to the arrays that got theirs, in order (array-fill.ts); `apply` then sends what they still want to the end of the line. So an
 * array is never without its turn, and nobody waits behind more than one gang of it at a time.
 * What one request cannot get, none that is alike can get in the same cycle: it is judged once (tries.ts). Where no reasons are asked
 * for, whole kinds of requests are passed over, and the cycle ends when nothing is left that anybody could use.
 * Work is bounded by `limits`; what was not looked at waits for the next cycle, at most `RETRY_MS` away.
 * Cost: O(log n) for the queue of n and O(clusters) to judge each kind, O(hosts) and the placement policy's own a grant.
 */

import type { JobId } from "../domain/ids.ts";
import { gpuCountOf, type Lease, type Reservation } from "../domain/lease.ts";
import type { PendingReason } from "../domain/pending.ts";
import {
  MAX_PLAN_ITEMS,
  type EvictItem,
  type PendingRequest,
  type Plan,
  type PlanItem,
  type ReserveItem,
} from "../domain/plan.ts";
import { asOneGang, fillArray, joinItem } from "./array-fill.ts";
import { fewestGpus, leastLimitMs, openBrain, type Brain } from "./brain.ts";
import { endAt, noteGrant, undoGrant, type FreshGrant } from "./capacity.ts";
import { claimQuota } from "./claims.ts";
import { checkGrant, isAcceptableSize, smallestSize } from "./feasibility.ts";
import {
  closeHeads,
  endHead,
  freeGpusIn,
  hasRoom,
  holdFor,
  keepForInference,
  keepsForInference,
  lift,
  liftable,
  mayLift,
  openHeads,
  putBack,
  reserveItems,
  setPreempting,
  settleLifted,
  type HeadRule,
} from "./heads.ts";
import { isUsable, prospectOf } from "./head-plan.ts";
import { planGrowth } from "./growth.ts";
import { isServedInTurn, judge, quotaWish, wakeAtOf, type Scene, type WaitCode } from "./judge.ts";
import type { Ledger } from "./ledger.ts";
import { describeWait } from "./pending-reason.ts";
import { noteGranted, openPreemption, planPreemption, type Preemption } from "./preemption.ts";
import type { Telling } from "./reason-holders.ts";
import { reservedForLatency } from "./reserve.ts";
import type { PlacePolicy } from "./placement/place-policy.ts";
import type { QueueFacts, QueuePolicy, Turn } from "./queue/queue-policy.ts";
import { classFlow, tenantFlow } from "./queue/flow.ts";
import { itemOf, tryStart, type DecidePorts, type StartContext, type Tried } from "./start.ts";
import { nextWindowEndMs } from "./limits.ts";
import { openTries } from "./tries.ts";
import { labelled } from "./usage.ts";
import { nextEvictableAtMs } from "./victims.ts";

export type { DecidePorts } from "./start.ts";

/**
 * Who may pass a request that cannot start. `none`: nobody, the cycle ends with it. `easy`: whoever does not delay the first such
 * request, by the time limits that users state. `heads`: the same for the first few, whose GPUs stay set apart. `conservative`: whoever
 * delays none of those before it. `unreserved`: anybody; a large gang may wait for ever.
 */
export type Backfill = "none" | "easy" | "conservative" | "heads" | "unreserved";

export interface Policies {
  readonly queue: QueuePolicy;
  readonly backfill: Backfill;
  readonly place: PlacePolicy;
  /** Whether others are evicted for who is due, and jobs that shrank may grow again; the fleet's own policy may forbid it. */
  readonly isPreempting?: true;
  /** Whether GPUs are kept free for inference jobs that are to come. */
  readonly hasLatencyReserve?: true;
}

export interface CycleLimits {
  /** Offers and hosts that may be looked at. */
  readonly maxCandidates: number;
  /** Reasons in one plan: each is some hundred bytes of history. 0: nobody is told anything. */
  readonly maxReasons: number;
  /** Requests at the head of the queue whose figures are kept fresh; the others are told of a new code only. */
  readonly freshReasons: number;
}

export interface CycleOptions {
  readonly policies: Policies;
  readonly ports: DecidePorts;
  readonly limits: CycleLimits;
  readonly method: Plan["stats"]["method"];
  /** Stop at this job's request and say why it waits. */
  readonly onlyFor?: JobId;
}

export interface Cycle {
  readonly plan: Plan;
  /** How many stand in line up to `onlyFor`, it included; absent when nobody was asked for. */
  readonly position?: number;
  /** Why `onlyFor` waits; absent when it would start, or was not reached. */
  readonly answer?: PendingReason;
}

/** Pause before what one cycle left out is looked at. */
export const RETRY_MS = 1_000;
/** When nothing is free but what may be lent, so many requests are asked whether they are short enough. */
const LENT_TRIES = 200;
/** When nothing is left to grant, so many requests from the front are told why they wait, and whoever was never told. */
const TOLD_AFRESH = 1_000;
/** Requests for which a cycle looks whom to evict. */
const MAX_PREEMPTIONS = 16;
/** Passes through the queue in one cycle: another one when GPUs that were set apart became open in the last. */
const MAX_PASSES = 4;

const HEAD_RULES: Readonly<Record<Backfill, HeadRule>> = {
  none: { most: 0, isKept: false },
  unreserved: { most: 0, isKept: false },
  easy: { most: 1, isKept: false },
  conservative: { most: 64, isKept: false },
  heads: { most: 8, isKept: true },
};

/** On a ledger that is looked at once. */
export function runCycle(snapshot: Ledger, nowMs: number, options: CycleOptions): Cycle {
  const brain = openBrain(snapshot, options.policies.queue, {
    isDismissing: isDismissing(options),
  });
  return runCycleOn(brain, { snapshot, nowMs }, options);
}

/** Whether a cycle may pass over kinds of requests: not where each is told why it waits, or one is looked for. */
export const isDismissing = ({
  limits,
  onlyFor,
}: Pick<CycleOptions, "limits" | "onlyFor">): boolean =>
  limits.maxReasons === 0 && onlyFor === undefined;

/** On a brain that goes on: it is left as it was. */
export function runCycleOn(
  brain: Brain,
  { snapshot, nowMs }: { readonly snapshot: Ledger; readonly nowMs: number },
  options: CycleOptions,
): Cycle {
  const { policies, ports, limits, method, onlyFor } = options;
  const { capacity } = brain;
  if (snapshot.requests.size === 0 && brain.shrunk.size === 0)
    return { plan: { items: [], pending: [], stats: { method, candidates: 0 } } };
  const scene: Scene = { capacity, claims: new Map(), nowMs };
  const context: StartContext = { snapshot, place: policies.place, ports };
  const heads = openHeads(capacity, {
    rule: HEAD_RULES[policies.backfill],
    nowMs,
    reservations: snapshot.reservations?.values() ?? [],
    requests: snapshot.requests,
  });
  const items: PlanItem[] = [];
  const evict: EvictItem[] = [];
  const evictReserve: ReserveItem[] = [];
  const grants: FreshGrant[] = [];
  const holders: Pick<Lease, "jobId" | "tenant" | "gpus">[] = [];
  const telling: Telling = { ...scene, snapshot, granted: holders, evict };
  /** What was granted before the account of holdings was opened. */
  const grantedBefore: { readonly request: PendingRequest; readonly gpus: Lease["gpus"] }[] = [];
  const granted = new Set<JobId>();
  const told = new Set<JobId>();
  const pending: { request: PlanItem["request"]; reason: PendingReason }[] = [];
  /** Arrays that got a gang and want more. */
  const unfilled: { readonly request: PendingRequest; readonly gang: PendingRequest }[] = [];
  const isTelling = limits.maxReasons > 0;
  let candidates = 0;
  let waiting = 0;
  let wakeAtMs = Infinity;
  /** Somebody might have got a place by eviction, now or when a lease is no longer protected. */
  let isShortOfVictims = false;
  let answer: PendingReason | undefined;
  let position: number | undefined;
  let preemption: Preemption | undefined;
  let sums:
    { readonly version: number; readonly open: number; readonly reservable: number } | undefined;
  let preemptionsLeft = policies.isPreempting === true && method === "decide" ? MAX_PREEMPTIONS : 0;

  // Where nobody else waits there is nobody to keep GPUs from.
  const isMixed = snapshot.requests.size > brain.inference.size;
  if (policies.hasLatencyReserve === true && isMixed && capacityOpen() > 0)
    keepForInference(heads, reservedForLatency(snapshot, capacity, nowMs).gpus);
  grantReserved();
  for (let pass = 1; pass <= MAX_PASSES && position === undefined; pass += 1) {
    const { opened } = heads;
    walk(pass);
    if (heads.opened === opened || isFull()) break;
  }
  if (onlyFor === undefined) fillArrays();
  grow();
  if (isShortOfVictims)
    wakeAtMs = Math.min(wakeAtMs, nextEvictableAtMs(snapshot.leases.values(), nowMs));
  if (capacity.index.hasWindows && snapshot.requests.size > 0)
    wakeAtMs = Math.min(wakeAtMs, nextWindowEndMs(capacity.index.clusters, nowMs));
  const reserve = [...reserveItems(heads, grants), ...evictReserve];
  for (const grant of grants.reverse()) undoGrant(capacity, grant);
  closeHeads(heads);
  const plan: Plan = {
    items,
    ...(reserve.length > 0 && { reserve }),
    ...(evict.length > 0 && { evict }),
    pending,
    ...(wakeAtMs < Infinity && { wakeAtMs }),
    stats: { method, candidates },
  };
  return {
    plan,
    ...(position !== undefined && { position }),
    ...(answer !== undefined && { answer }),
  };

  function isFull(): boolean {
    return items.length >= MAX_PLAN_ITEMS || candidates >= limits.maxCandidates;
  }

  /** What is set apart and free is nobody else's: its job starts, whatever the order. */
  function grantReserved(): void {
    for (const { jobId, kind, gpus } of [...capacity.reserved.byJob.values()]) {
      const request = snapshot.requests.get(jobId);
      if (request === undefined || isFull()) continue;
      if (prospectOf(gpus, scene).missing > 0) continue;
      if (jobId === onlyFor && kind !== "keep") continue;
      const own = lift(heads, jobId);
      if (own === undefined) continue;
      const tried = tryOwn(request, own);
      candidates += tried.work;
      if (tried.kind === "grant") grant(request, tried.item, own);
      else putBack(heads, own);
    }
  }

  function tryOwn(request: PendingRequest, own: Reservation): Tried {
    const why = "the GPUs were set apart for it";
    const { kind, gpus } = own;
    if (kind === "keep" && isAcceptableSize(request.gang, gpuCountOf(gpus))) {
      putBack(heads, own);
      const { index, usage, reserved } = capacity;
      const terms = { index, usage, reserved, standings: snapshot.hosts, nowMs };
      const isAllowed = checkGrant(request, { gpus }, terms) === undefined;
      const item = isAllowed ? itemOf(request, { gpus, why }, scene, context) : undefined;
      lift(heads, request.jobId);
      if (item !== undefined) return { kind: "grant", item, work: 1 };
    }
    return tryStart(asOneGang(request, scene), scene, context, { own, why });
  }

  function grant(request: PendingRequest, item: PlanItem, own: Reservation | undefined): void {
    const { jobId, tenant, timeLimitMs } = request;
    joinItem(items, item);
    if ((request.slots ?? 1) > 1 && !granted.has(jobId))
      unfilled.push({ request, gang: asOneGang(request, scene) });
    granted.add(jobId);
    const name = `grant ${grants.length}`;
    const fresh = {
      name,
      tenant,
      gpus: item.gpus,
      endAtMs: endAt(nowMs, item.slots === undefined ? timeLimitMs : undefined),
      ...labelled(jobId, request.constraints.antiAffinity),
    };
    noteGrant(capacity, fresh);
    grants.push(fresh);
    holders.push({ jobId, tenant, gpus: item.gpus });
    if (preemption === undefined) grantedBefore.push({ request, gpus: item.gpus });
    else noteGranted(preemption, request, item.gpus);
    if (own?.kind === "head") endHead(heads, jobId);
    else if (own !== undefined) putBack(heads, own);
  }

  function walk(pass: number): void {
    // The first pass has told everybody, or as many as it may.
    const isTellingNow = isTelling && (pass === 1 || onlyFor !== undefined);
    const turn = brain.queue.order(nowMs, factsOf());
    const tries = openTries(scene, heads);
    const openKinds = unvisitedKinds();
    let seen = 0;
    let lentTries = 0;
    let isClosed = false;
    for (let request = turn.next(); request !== undefined; request = turn.next()) {
      seen += 1;
      const { jobId } = request;
      if (granted.has(jobId)) continue;
      if (isFull()) {
        wakeAtMs = Math.min(wakeAtMs, nowMs + RETRY_MS);
        if (onlyFor === undefined) return;
        if (jobId === onlyFor) {
          position = seen;
          return;
        }
        continue;
      }
      if (!isTellingNow && isOver()) return;
      if (pass > 1 && onlyFor === undefined && isIdle()) return;
      if (isTellingNow && onlyFor === undefined && isTold(seen)) {
        if (isOver()) {
          tellNew();
          return;
        }
        // Nobody here can start any more; heads may still find something that is ready sooner.
        if (!openKinds.has(jobId) && isIdle()) continue;
      }
      const gang = asOneGang(request, scene);
      const own = lift(heads, jobId);
      if (heads.now.has(jobId)) heads.visited.add(jobId);
      openKinds.delete(jobId);
      const known = own === undefined ? tries.known(gang) : undefined;
      const tried = isClosed
        ? closed(gang, own)
        : known
          ? { ...known, work: 1 }
          : tryAll(gang, own);
      candidates += tried.work;
      if (tried.kind === "grant") {
        grant(request, tried.item, own);
        turn.noteGrant(request, gpuCountOf(tried.item.gpus));
        if (jobId !== onlyFor) continue;
        position = seen;
        return;
      }
      const code = preempt(gang, tried.code, own) ? "WaitingForPreempted" : tried.code;
      wakeAtMs = Math.min(wakeAtMs, wakeAtOf(gang, code, nowMs));
      if (jobId === onlyFor) {
        answer = describeWait(gang, code, telling);
        position = seen;
        if (own !== undefined && code === tried.code) putBack(heads, own);
        return;
      }
      if (own === undefined && known === undefined) tries.note(gang, tried.code);
      tellWait(gang, code);
      if (code === tried.code) {
        hold(gang, code, own);
        if (startHeld(request)) {
          if (pending.at(-1)?.request.jobId === jobId) pending.pop();
          continue;
        }
      }
      if (policies.backfill === "none" && isServedInTurn(code)) {
        isClosed = true;
        telling.first ??= jobId;
        if (!isTelling && onlyFor === undefined) return;
      }
      if (isDismissing(options)) dismiss(turn, gang);
    }
    if (onlyFor !== undefined) position = seen;

    /** The plan holds all the reasons that it can, or those behind here are told when they come nearer. */
    function isTold(visited: number): boolean {
      return pending.length >= limits.maxReasons || visited > TOLD_AFRESH;
    }

    /** Nothing is left that anybody who waits could use. */
    function isOver(): boolean {
      if (openKinds.size > 0 || mayUse(fewestGpus(brain))) return false;
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
      return capacityOpen() >= gpus || (hasRoom(heads) && capacityReservable() >= gpus);
    }

    /** Whether others might lend, leave or give up GPUs. */
    function mayGet(): boolean {
      const isForInference = keepsForInference(heads) && brain.inference.size > 0;
      return isForInference || preemptionsLeft > 0 || mayLift(heads, 0);
    }

    function dismiss(ofTurn: Turn, gang: PendingRequest): void {
      if (openKinds.size > 0 || hasRoom(heads) || !tries.isFinal(gang)) return;
      if (!mayLift(heads, leastLimitMs(gang))) ofTurn.dismiss(gang);
    }
  }

  /** On what is open to all; then on what others would lend or leave to it. */
  function tryAll(gang: PendingRequest, own: Reservation | undefined): Tried {
    const plain = tryStart(gang, scene, context, own && { own });
    if (plain.kind === "grant" || !isServedInTurn(plain.code)) return plain;
    const lifted = liftable(heads, gang);
    const reach = lifted.reduce((sum, each) => sum + freeGpusIn(heads, each), capacityOpen());
    if (lifted.length === 0 || reach < smallestSize(gang.gang)) return plain;
    for (const { jobId } of lifted) lift(heads, jobId);
    const why = "next in the queue, on GPUs that an earlier job does not need yet";
    const tried = tryStart(gang, scene, context, { ...(own && { own }), why });
    if (tried.kind === "grant") {
      settleLifted(heads, lifted, { request: gang, gpus: tried.item.gpus });
      return tried;
    }
    for (const reservation of lifted) putBack(heads, reservation);
    return { ...plain, work: plain.work + tried.work };
  }

  /** Whether others give up GPUs for it from now on. */
  function preempt(gang: PendingRequest, code: WaitCode, own: Reservation | undefined): boolean {
    const mayHelp = isServedInTurn(code) || code === "WaitingForQuota";
    if (preemptionsLeft <= 0 || !mayHelp || (own !== undefined && own.kind !== "head"))
      return false;
    preemptionsLeft -= 1;
    isShortOfVictims = true;
    preemption ??= openPreemption(snapshot, capacity, nowMs);
    if (preemption === undefined) {
      preemptionsLeft = 0;
      return false;
    }
    for (const { request, gpus } of grantedBefore) noteGranted(preemption, request, gpus);
    grantedBefore.length = 0;
    const plan = planPreemption(gang, scene, { preemption, place: policies.place });
    if (plan === undefined) return false;
    candidates += plan.work;
    evict.push(...plan.evict);
    evictReserve.push(plan.reserve);
    setPreempting(heads, plan.reserve);
    if (own !== undefined) heads.opened += 1;
    return true;
  }

  function grow(): void {
    if (onlyFor !== undefined || policies.isPreempting !== true || method !== "decide") return;
    if (brain.shrunk.size === 0) return;
    preemption ??= openPreemption(snapshot, capacity, nowMs);
    if (preemption === undefined) return;
    const plan = planGrowth(scene, { preemption, place: policies.place });
    candidates += plan.work;
    evict.push(...plan.evict);
    evictReserve.push(...plan.reserve);
  }

  /** Nobody passes the one that waits. */
  function closed(gang: PendingRequest, own: Reservation | undefined): Tried {
    const tried = tryStart(gang, scene, context, own && { own });
    return tried.kind === "wait"
      ? tried
      : { kind: "wait", code: "BehindEarlierJob", work: tried.work };
  }

  /** Sees to what is set apart for a request that waits, and to what it claims of its tenant's quota. */
  function hold(gang: PendingRequest, code: WaitCode, own: Reservation | undefined): void {
    if (code === "WaitingForQuota" && !scene.claims.has(gang.tenant))
      claimQuota(scene.claims, gang, quotaWish(gang, scene));
    if (isServedInTurn(code) || (own !== undefined && own.kind !== "head")) {
      if (own === undefined && !hasRoom(heads)) return;
      if (holdFor(heads, gang, { own, scene, place: policies.place }))
        claimQuota(scene.claims, gang, quotaWish(gang, scene));
    } else if (own !== undefined) endHead(heads, own.jobId);
  }

  /** What was set apart for it may turn out to be free as it is: where GPUs kept for inference are what it takes. */
  function startHeld(request: PendingRequest): boolean {
    const held = heads.now.get(request.jobId);
    if (held === undefined || prospectOf(held.gpus, scene).missing > 0) return false;
    const gang = asOneGang(request, scene);
    if (!isUsable(gang, held, scene)) return false;
    const own = lift(heads, request.jobId);
    const tried = tryStart(gang, scene, context, { ...(own && { own }) });
    candidates += tried.work;
    if (tried.kind === "grant") grant(request, tried.item, own);
    else if (own !== undefined) putBack(heads, own);
    return tried.kind === "grant";
  }

  function tellWait(request: PendingRequest, code: WaitCode): void {
    const { jobId, runId, seq } = request;
    if (!isTelling || onlyFor !== undefined || told.has(jobId)) return;
    told.add(jobId);
    const former = snapshot.reasons.get(jobId);
    if (former?.code !== code || waiting < limits.freshReasons) {
      if (pending.length >= limits.maxReasons) wakeAtMs = Math.min(wakeAtMs, nowMs + RETRY_MS);
      else {
        const reason = describeWait(request, code, telling);
        if (!isSame(reason, former)) pending.push({ request: { jobId, runId, seq }, reason });
      }
    }
    waiting += 1;
  }

  /** Tells those who never were told anything. */
  function tellNew(): void {
    for (const request of snapshot.requests.values()) {
      const { jobId } = request;
      if (snapshot.reasons.has(jobId) || told.has(jobId) || granted.has(jobId)) continue;
      if (pending.length >= limits.maxReasons) {
        wakeAtMs = Math.min(wakeAtMs, nowMs + RETRY_MS);
        return;
      }
      const gang = asOneGang(request, scene);
      const verdict = judge(gang, scene);
      const code = verdict.kind === "wait" ? verdict.code : "BehindEarlierJob";
      candidates += verdict.work;
      wakeAtMs = Math.min(wakeAtMs, wakeAtOf(gang, code, nowMs));
      tellWait(gang, code);
    }
  }

  function fillArrays(): void {
    for (const { request, gang } of unfilled) {
      let slots = (request.slots ?? 1) - 1;
      while (slots > 0) {
        if (isFull()) {
          wakeAtMs = Math.min(wakeAtMs, nowMs + RETRY_MS);
          break;
        }
        const filled = fillArray(gang, slots, scene, context);
        candidates += filled.work;
        if (filled.kind === "wait") {
          tellWait(gang, filled.code);
          break;
        }
        grant(request, filled.item, undefined);
        slots -= filled.item.slots ?? 1;
      }
    }
  }

  /** Who runs how much, with what this cycle has granted so far. */
  function factsOf(): QueueFacts {
    const runningGpus = new Map(brain.runningGpus);
    for (const item of items) {
      const request = snapshot.requests.get(item.request.jobId);
      if (request === undefined) continue;
      for (const flow of [classFlow(request), tenantFlow(request)])
        runningGpus.set(flow, (runningGpus.get(flow) ?? 0) + gpuCountOf(item.gpus));
    }
    return { ...(snapshot.service !== undefined && { service: snapshot.service }), runningGpus };
  }

  /** Heads whose turn is still to come: their kinds are not passed over before. */
  function unvisitedKinds(): Set<JobId> {
    return new Set(
      [...heads.now.keys()].filter((job) => snapshot.requests.has(job) && !granted.has(job)),
    );
  }

  function capacityOpen(): number {
    return gpusNow().open;
  }

  function capacityReservable(): number {
    return gpusNow().reservable;
  }

  /** Asked for with every request, and the same from one change to the next. */
  function gpusNow(): NonNullable<typeof sums> {
    if (sums?.version === capacity.version) return sums;
    let open = 0;
    let reservable = 0;
    for (const { tallies } of capacity.pools) {
      open += tallies.open.gpus;
      reservable += tallies.unreserved.gpus;
    }
    sums = { version: capacity.version, open, reservable };
    return sums;
  }
}

const isSame = (a: PendingReason, b: PendingReason | undefined): boolean =>
  a.code === b?.code && a.message === b.message && JSON.stringify(a) === JSON.stringify(b);
