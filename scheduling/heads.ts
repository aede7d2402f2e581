/**
 * @file GPUs that are set apart for requests that cannot start: who may have them, who gives way, and what a cycle changes of it.
 *
 * A request whose turn it is and that cannot start gets exact GPUs set apart (head-plan.ts), free ones and such as are leased
 * still. Others get those GPUs in two cases only. *Lent*: a job whose time limit ends before the last of them is free delays nobody
 * (EASY's rule). *Yielded*: a request that comes before the head in line may take what is free of them, as long as the head has
 * waited for less than `YIELD_MS`; the head then waits for others instead. After that it yields to nobody, so it starts at the
 * latest when the leases that it waits for have ended. To inference jobs it yields until `LAST_YIELD_MS`.
 * Reservations are kept from cycle to cycle, so that a changing order cannot starve a large gang; another set of GPUs takes the place
 * of the former one only when it is ready sooner, or when the former one cannot be used any more.
 * Everything here is done to the capacity at once, and undone when the cycle is over. Cost: O(hosts of a reservation) a step.
 */

import type { JobId } from "../domain/ids.ts";
import type { JobClass } from "../domain/job.ts";
import { gpuCountOf, popCount, type HostGpus, type Reservation } from "../domain/lease.ts";
import type { PendingRequest, ReserveItem } from "../domain/plan.ts";
import {
  markOf,
  noteReservation,
  returnTo,
  type Capacity,
  type ContentMark,
  type FreshGrant,
} from "./capacity.ts";
import { mayBeBetter } from "./better-heads.ts";
import {
  isBetter,
  isUsable,
  lendUntilOf,
  planHead,
  planPart,
  prospectOf,
  type HeadPlan,
} from "./head-plan.ts";
import type { Scene } from "./judge.ts";
import type { PlacePolicy } from "./placement/place-policy.ts";
import { sharedGpus, withoutGpus } from "./reserved.ts";

export interface HeadRule {
  /** Requests that hold GPUs at the same time. */
  readonly most: number;
  /** Whether what is set apart stays so in the next cycle, whatever the order is then. */
  readonly isKept: boolean;
  /** Whether one for which what others have set apart leaves no whole place holds a part of one. */
  readonly holdsParts: boolean;
}

/** For so long a request that waits gives way to those before it in line. */
export const YIELD_MS = 3_600_000;
/** The same to inference jobs, and to the reserve that is kept for them: it is a few GPUs of a hundred, which they give back soon. */
export const LAST_YIELD_MS = 2 * YIELD_MS;

/** In whose name GPUs are kept free for inference jobs that are to come: no job's, an id has no white space. */
export const LATENCY = "latency reserve" as JobId; // not from the constructor, which would refuse it

export interface Heads {
  readonly rule: HeadRule;
  readonly capacity: Capacity;
  readonly nowMs: number;
  readonly requests: ReadonlyMap<JobId, PendingRequest>;
  /** As the ledger has them. */
  readonly formers: ReadonlyMap<JobId, Reservation>;
  /** As they are to be; of kind head only. */
  readonly now: Map<JobId, Reservation>;
  /** Heads whose turn has come in this cycle: they yield no more. */
  readonly visited: Set<JobId>;
  /** What has to be put back when the cycle is over: the first change of each job. */
  readonly changed: Map<JobId, Reservation | undefined>;
  /** Grows when GPUs that were set apart become open to all. */
  opened: number;
  /** Grows when what is set apart for heads becomes another. */
  renewals: number;
  /** How often somebody was found to give way. */
  yields: number;
  /** For how long each is expected to wait yet, milliseconds; see loans.ts. */
  readonly expected: WeakMap<Reservation, number>;
  /** How many of its GPUs are free, at a version of the capacity's leases. */
  readonly free: WeakMap<Reservation, { readonly version: number; readonly gpus: number }>;
  /** What was taken off last of each job, and the capacity before and after that. */
  readonly lifted: Map<JobId, Lifted>;
}

interface Lifted {
  readonly gpus: readonly HostGpus[];
  readonly before: ContentMark;
  /** Version. */
  readonly after: number;
}

export function openHeads(
  capacity: Capacity,
  {
    rule,
    nowMs,
    reservations,
    requests,
  }: {
    readonly rule: HeadRule;
    readonly nowMs: number;
    readonly reservations: Iterable<Reservation>;
    readonly requests: ReadonlyMap<JobId, PendingRequest>;
  },
): Heads {
  const formers = new Map<JobId, Reservation>();
  for (const reservation of reservations) {
    if (reservation.kind === "head") formers.set(reservation.jobId, reservation);
  }
  const heads: Heads = {
    rule,
    capacity,
    nowMs,
    requests,
    formers,
    now: new Map(formers),
    visited: new Set(),
    changed: new Map(),
    opened: 0,
    renewals: 0,
    yields: 0,
    expected: new WeakMap(),
    free: new WeakMap(),
    lifted: new Map(),
  };
  if (!rule.isKept) for (const job of formers.keys()) setHead(heads, job, undefined);
  return heads;
}

/** Keeps GPUs free for inference jobs, while this cycle lasts. */
export function keepForInference(heads: Heads, gpus: readonly HostGpus[]): void {
  if (gpus.length > 0)
    change(heads, LATENCY, { jobId: LATENCY, gpus, kind: "head", sinceMs: heads.nowMs });
}

/** Those that yield and lack something still, the farthest from their start first; ties by seniority. */
export function incompleteHeads(heads: Heads): readonly Reservation[] {
  const found: { readonly reservation: Reservation; readonly missing: number }[] = [];
  for (const reservation of heads.now.values()) {
    const free = freeGpusIn(heads, reservation);
    const missing = gpuCountOf(reservation.gpus) - free;
    if (free > 0 && missing > 0 && doesYield(heads, reservation, "inference"))
      found.push({ reservation, missing });
  }
  found.sort((a, b) => b.missing - a.missing);
  return found.map(({ reservation }) => reservation);
}

/** Whether any of them is left. */
export const keepsForInference = ({ capacity }: Heads): boolean =>
  capacity.reserved.byJob.has(LATENCY);

export function closeHeads({ capacity, changed }: Heads): void {
  // Those first whose GPUs others had before.
  for (const [job, former] of changed)
    if (capacity.reserved.byJob.get(job)?.gpus !== former?.gpus) put(capacity, job, undefined);
  for (const [job, former] of changed) put(capacity, job, former);
}

/**
 * What the plan has to say of it. `apply` sets GPUs apart before it grants, so what the same plan grants to others is left out, but
 * for what is lent; the next cycle completes it.
 */
export function reserveItems(
  { formers, now, capacity }: Heads,
  grants: readonly FreshGrant[],
): readonly ReserveItem[] {
  const items: ReserveItem[] = [];
  for (const jobId of formers.keys()) {
    const kind = capacity.reserved.byJob.get(jobId)?.kind ?? "head";
    if (!now.has(jobId) && kind === "head") items.push({ jobId, gpus: [], kind: "head" });
  }
  for (const [jobId, { gpus: all, lendUntilMs }] of now) {
    let gpus = all;
    const former = formers.get(jobId);
    for (const grant of grants) {
      // Only what was the head's before can be lent. A head that waits for the end of a grant of this plan would
      // forbid it: `apply` reads a later clock, so the grant then ends after the time that was named for it.
      const isLent = former?.gpus === all && grant.endAtMs <= (lendUntilMs ?? -Infinity);
      const { loan } = grant;
      if (!isLent)
        gpus = withoutShared(gpus, loan === undefined ? grant.gpus : withoutGpus(grant.gpus, loan));
    }
    if (former === undefined && gpus.length === 0) continue;
    if (former?.gpus === gpus && former.lendUntilMs === lendUntilMs) continue;
    items.push({ jobId, gpus, kind: "head", ...(lendUntilMs !== undefined && { lendUntilMs }) });
  }
  return items;
}

/** The very same list where they share nothing. */
const withoutShared = (a: readonly HostGpus[], b: readonly HostGpus[]): readonly HostGpus[] =>
  sharedGpus(a, b).length === 0 ? a : withoutGpus(a, b);

/** What is set apart for a job, of any kind. */
export const setApartFor = ({ capacity }: Heads, job: JobId): Reservation | undefined =>
  capacity.reserved.byJob.get(job);

/** Takes off what is set apart for a job, of any kind, to look at it and the rest together. */
export function lift(heads: Heads, job: JobId): Reservation | undefined {
  const { capacity, lifted } = heads;
  const reservation = capacity.reserved.byJob.get(job);
  if (reservation === undefined) return undefined;
  const before = markOf(capacity);
  change(heads, job, undefined);
  lifted.set(job, { gpus: reservation.gpus, before, after: capacity.version });
  return reservation;
}

export const putBack = (heads: Heads, reservation: Reservation): void =>
  change(heads, reservation.jobId, reservation);

/** Other jobs' GPUs that the request may have: those that are lent to it, those that yield to it, and those kept for its class. */
export function liftable(heads: Heads, request: PendingRequest): readonly Reservation[] {
  // Tasks of an array follow each other in one lease, which ends nobody knows when.
  const isOpenEnded = request.slots !== undefined;
  const kept =
    request.class === "inference" ? heads.capacity.reserved.byJob.get(LATENCY) : undefined;
  const found: Reservation[] = kept === undefined ? [] : [kept];
  for (const reservation of heads.now.values()) {
    if (isOpenEnded || reservation.jobId === request.jobId || !hasFree(heads, reservation))
      continue;
    if (isLent(heads, reservation, request) || doesYield(heads, reservation, request.class))
      found.push(reservation);
  }
  return found;
}

/** Whether any request with such a time limit or a longer one might be lent GPUs, or any at all be given way. */
export function mayLift(
  heads: Heads,
  leastLimitMs: number,
  jobClass: JobClass = "training",
): boolean {
  for (const reservation of heads.now.values()) {
    if (!hasFree(heads, reservation)) continue;
    if (isLent(heads, reservation, { timeLimitMs: leastLimitMs })) return true;
    if (doesYield(heads, reservation, jobClass)) return true;
  }
  return false;
}

/** After a grant: what was lent stays set apart, what was taken from one that yields does not. */
export function settleLifted(
  heads: Heads,
  lifted: readonly Reservation[],
  taken: { readonly request: PendingRequest; readonly gpus: readonly HostGpus[] },
): void {
  for (const reservation of lifted) {
    if (isLent(heads, reservation, taken.request)) putBack(heads, reservation);
    else giveUp(heads, reservation, taken.gpus);
  }
}

/** The job got what it waits for: what was set apart for it is open to all. */
export function endHead(heads: Heads, job: JobId): void {
  if (!heads.now.has(job)) return;
  setHead(heads, job, undefined);
  heads.opened += 1;
}

/** The request cannot start: sees to what is set apart for it, which is `own` and may be lifted. Whether anything is, after that. */
export function holdFor(
  heads: Heads,
  request: PendingRequest,
  {
    own,
    scene,
    place,
  }: {
    readonly own: Reservation | undefined;
    readonly scene: Scene;
    readonly place: PlacePolicy;
  },
): boolean {
  heads.visited.add(request.jobId);
  if (own !== undefined && own.kind !== "head") {
    putBack(heads, own);
    return true;
  }
  if (own === undefined && (!hasRoom(heads) || isNothingLeft(heads, request))) return false;
  if (own !== undefined && !isLifted(heads, own)) {
    if (staysAsItIs(heads, request, own, scene)) return true;
    lift(heads, own.jobId);
  }
  const kept = own !== undefined && isUsable(request, own, scene) ? own : undefined;
  const known = kept && prospectOf(kept.gpus, scene);
  const isTried = known === undefined || isWorthATry(known, scene);
  const found = isTried
    ? (planHead(request, scene, place, known) ??
      (known === undefined ? planPast(heads, request, { scene, place }) : undefined))
    : undefined;
  const isKept = known !== undefined && (found === undefined || !isBetter(found, known));
  const best = isKept ? known : found;
  if (own !== undefined && !isKept) heads.opened += 1;
  if (best === undefined) {
    setHead(heads, request.jobId, undefined);
    return false;
  }
  if (
    own !== undefined &&
    !isKept &&
    isSameSet(own.gpus, best.gpus) &&
    own.lendUntilMs === undefined
  ) {
    setHead(heads, request.jobId, own);
    return true;
  }
  const { lendUntilMs: formerMs, ...former } = own ?? { sinceMs: scene.nowMs };
  const base = { ...former, jobId: request.jobId, kind: "head", gpus: best.gpus } as const;
  setHead(heads, request.jobId, base);
  // Asked for now that what its GPUs will draw is kept.
  const readyMs = lendUntilOf(best, scene);
  const untilMs =
    isKept && readyMs !== undefined ? Math.min(readyMs, formerMs ?? readyMs) : readyMs;
  if (isKept && untilMs === formerMs) setHead(heads, request.jobId, kept);
  else if (untilMs !== undefined) setHead(heads, request.jobId, { ...base, lendUntilMs: untilMs });
  return true;
}

/** All GPUs are set apart, and nobody behind it gives way. */
const isNothingLeft = (heads: Heads, request: PendingRequest): boolean =>
  heads.capacity.pools.every(({ tallies }) => tallies.unreserved.gpus === 0) &&
  behindOf(heads, request).length === 0;

const isLifted = ({ capacity }: Heads, { jobId }: Reservation): boolean =>
  !capacity.reserved.byJob.has(jobId);

/** What is set apart is usable, nothing is better, and nothing new is known of how long it may be lent: as `holdFor` would find. */
function staysAsItIs(
  heads: Heads,
  request: PendingRequest,
  own: Reservation,
  scene: Scene,
): boolean {
  if (!isUsable(request, own, scene)) return false;
  const known = prospectOf(own.gpus, scene);
  const isTried = known.missing > 0 && (hasFree(heads, own) || isAnyOpen(scene));
  if (isTried && mayBeBetter(request, known, scene)) return false;
  const { lendUntilMs: formerMs } = own;
  const readyMs = lendUntilOf(known, scene);
  return formerMs === (readyMs && Math.min(readyMs, formerMs ?? readyMs));
}

/**
 * When what is set apart for others leaves too little: at the cost of those behind it in line that still yield. If that is not
 * enough, either, it waits until one of those starts; or gets a part of what it needs, so that nobody behind it gets that.
 */
function planPast(
  heads: Heads,
  request: PendingRequest,
  { scene, place }: { readonly scene: Scene; readonly place: PlacePolicy },
): HeadPlan | undefined {
  const behind = behindOf(heads, request);
  for (const { jobId } of behind) lift(heads, jobId);
  const found =
    planHead(request, scene, place) ??
    (heads.rule.holdsParts ? planPart(request, scene) : undefined);
  for (const reservation of behind) giveUp(heads, reservation, found?.gpus ?? []);
  return found;
}

/** Those that yield to the request what is set apart for them. */
function behindOf(heads: Heads, request: PendingRequest): readonly Reservation[] {
  const behind = [...heads.now.values()].filter(
    (reservation) =>
      reservation.jobId !== request.jobId && doesYield(heads, reservation, request.class),
  );
  const kept = heads.capacity.reserved.byJob.get(LATENCY);
  if (kept !== undefined) behind.push(kept);
  return behind;
}

/** What is left of what was lifted. */
export function giveUp(heads: Heads, reservation: Reservation, taken: readonly HostGpus[]): void {
  if (sharedGpus(reservation.gpus, taken).length === 0) {
    putBack(heads, reservation);
    return;
  }
  const gpus = withoutGpus(reservation.gpus, taken);
  const { lendUntilMs: _void, ...rest } = reservation;
  const left = gpus.length === 0 ? undefined : { ...rest, gpus };
  if (reservation.jobId === LATENCY) change(heads, LATENCY, left);
  else setHead(heads, reservation.jobId, left);
}

/** Others are evicted for it: from here on these are its GPUs, and it is no head any more. */
export function setPreempting(heads: Heads, { jobId, gpus, kind }: ReserveItem): void {
  heads.renewals += 1;
  heads.now.delete(jobId);
  change(heads, jobId, { jobId, gpus, kind, sinceMs: heads.nowMs });
}

/** A victim goes on with these: nobody else may wait for them in this cycle. */
export const setKept = (heads: Heads, { jobId, gpus }: Pick<Reservation, "jobId" | "gpus">): void =>
  change(heads, jobId, { jobId, gpus, kind: "keep", sinceMs: heads.nowMs });

export const hasRoom = ({ now, rule }: Heads): boolean => now.size < rule.most;

/** Whether something other than what is set apart could be ready sooner. */
const isWorthATry = ({ missing }: HeadPlan, scene: Scene): boolean =>
  missing > 0 && isAnyOpen(scene);

const isAnyOpen = ({ capacity }: Scene): boolean =>
  capacity.pools.some(({ tallies }) => tallies.open.gpus > 0);

function isLent(
  { nowMs }: Heads,
  { lendUntilMs }: Reservation,
  { timeLimitMs }: { readonly timeLimitMs?: number },
): boolean {
  return (
    lendUntilMs !== undefined && timeLimitMs !== undefined && nowMs + timeLimitMs <= lendUntilMs
  );
}

function doesYield(heads: Heads, { jobId }: Reservation, toClass: JobClass): boolean {
  const { visited, requests, nowMs } = heads;
  const request = requests.get(jobId);
  const untilMs = toClass === "inference" ? LAST_YIELD_MS : YIELD_MS;
  const does =
    !visited.has(jobId) && request !== undefined && nowMs - request.requestedAtMs < untilMs;
  if (does) heads.yields += 1;
  return does;
}

const hasFree = (heads: Heads, reservation: Reservation): boolean =>
  freeGpusIn(heads, reservation) > 0;

/** How many of the GPUs that are set apart may be taken. */
export function freeGpusIn({ capacity, free }: Heads, reservation: Reservation): number {
  const { leaseVersion: version } = capacity;
  const known = free.get(reservation);
  if (known?.version === version) return known.gpus;
  let gpus = 0;
  for (const { host: id, mask } of reservation.gpus) {
    const host = capacity.hosts.get(id);
    if (host !== undefined && host.hindrance === undefined)
      gpus += popCount(mask & ~host.leasedMask);
  }
  free.set(reservation, { version, gpus });
  return gpus;
}

export const isSameSet = (a: readonly HostGpus[], b: readonly HostGpus[]): boolean =>
  a === b || (gpuCountOf(a) === gpuCountOf(b) && withoutGpus(a, b).length === 0);

function setHead(heads: Heads, job: JobId, after: Reservation | undefined): void {
  if (heads.now.get(job) !== after) heads.renewals += 1;
  change(heads, job, after);
  if (after === undefined) heads.now.delete(job);
  else heads.now.set(job, after);
}

/** What was lifted and comes back, with nothing else changed in between, leaves the capacity as it was before. */
function change(
  { capacity, changed, formers, lifted }: Heads,
  job: JobId,
  after: Reservation | undefined,
): void {
  if (!changed.has(job)) changed.set(job, capacity.reserved.byJob.get(job) ?? formers.get(job));
  const { version } = capacity;
  put(capacity, job, after);
  const last = after && lifted.get(job);
  if (last !== undefined && last.gpus === after?.gpus && last.after === version)
    returnTo(capacity, last.before);
}

const put = (capacity: Capacity, job: JobId, after: Reservation | undefined): void =>
  noteReservation(capacity, capacity.reserved.byJob.get(job), after);
