/**
 * @file Plays one possible future of a ledger: the fleet's own `apply` and `decide` on a copy, with drawn run times and drawn arrivals.
 *
 * Running jobs end after a drawn time, granted jobs run for one, and an evicted job writes its checkpoint and asks again. A step of the
 * clock lasts `STEP_SHARE` of the time played so far, so fifty decisions reach a month. In the first `FINE_STEPS` decisions a step also
 * ends when `ENDS_SHARE` of the leases have ended: with long steps alone, a job that follows a short one would wait for the rest of the
 * step, and a queue of short jobs would look many times too long. A start at the end of a step counts as a start in its middle.
 * Cost: one decision a step. The same ledger and random numbers give the same play.
 */

import { jobId as toJobId, runId, type JobId, type LeaseId } from "../../domain/values/ids.ts";
import { gpuCountOf, type GangRequest, type Lease } from "../../domain/lease/lease.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import { ms } from "../../domain/values/units.ts";
import { heap, type Heap } from "../../lib/heap.ts";
import type { Random } from "../../lib/random.ts";
import type { ArrivalStream } from "../estimates/arrival-rates.ts";
import type { DecidePorts, Policies } from "../cycle/cycle.ts";
import { SILENT_LIMITS } from "../cycle/decide.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { RunKind, RunTimes } from "../estimates/run-times.ts";
import { openSession } from "../cycle/live-scheduler.ts";

export interface PlayOptions {
  readonly nowMs: number;
  /** The play ends here. */
  readonly untilMs: number;
  readonly maxDecisions: number;
  readonly runTimes: RunTimes;
  readonly streams: readonly ArrivalStream[];
  readonly random: Random;
  readonly policies?: Policies | undefined;
  readonly ports?: DecidePorts | undefined;
}

export interface Play {
  /** Of the watched jobs that started. */
  readonly startsAtMs: ReadonlyMap<JobId, number>;
  readonly decisions: number;
  /** The decisions ran out before the horizon. */
  readonly isCut: boolean;
}

/** Writing a checkpoint and stopping takes from this time to five times as long. */
const YIELD_MS = 1_000;
/** Time until the hosts of a lease without a job have confirmed that nothing runs. */
const VACATE_MS = 2_000;
const MIN_STEP_MS = 1_000;
/** Length of a step, as a share of the time played so far. */
const STEP_SHARE = 0.15;
/** Share of the leases that end in one fine step at most, beyond its first `MIN_STEP_MS`. */
const ENDS_SHARE = 1 / 12;
const LEAST_ENDS = 2;
/** Arrivals in one fine step at most. */
const MOST_ARRIVALS = 64;
/** Number of decisions with fine steps; later steps are bounded by time alone. */
const FINE_STEPS = 100;

type Cause =
  | { readonly kind: "end" | "yield"; readonly lease: LeaseId }
  | { readonly kind: "arrival"; readonly stream: ArrivalStream; readonly lastAtMs: number };

interface PlayEvent {
  readonly atMs: number;
  readonly order: number;
  readonly cause: Cause;
}

interface PlayState {
  readonly session: ReturnType<typeof openSession>;
  readonly runTimes: RunTimes;
  readonly ends: Random;
  readonly arrivals: Random;
  readonly startMs: number;
  nowMs: number;
  readonly events: Heap<PlayEvent>;
  eventCount: number;
  arrivalCount: number;
  decisions: number;
  /** Time that a stopped job still runs on all the GPUs that it asked for. */
  readonly leftMs: Map<JobId, number>;
  readonly endAtMs: Map<LeaseId, number>;
  /** Half of the time from the first event of the last step to its end: the GPUs were free this much earlier, on average. */
  lagMs: number;
}

/** Plays until all of `watched` have started, the horizon is reached or the decisions run out. */
export function play(ledger: Ledger, watched: Iterable<JobId>, options: PlayOptions): Play {
  const waiting = new Set(watched);
  const startsAtMs = new Map<JobId, number>();
  const state = openPlay(ledger, options);
  const { session } = state;
  for (;;) {
    const { decisions } = state;
    if (decisions >= options.maxDecisions) return { startsAtMs, decisions, isCut: true };
    const plan = session.decide(state.nowMs);
    state.decisions += 1;
    const done = { startsAtMs, decisions: state.decisions, isCut: false };
    for (const { jobId } of carryOut(state, plan))
      if (waiting.delete(jobId)) startsAtMs.set(jobId, state.nowMs - state.lagMs);
    if (waiting.size === 0) return done;
    const wakeAtMs = Math.max(state.nowMs + MIN_STEP_MS, plan.wakeAtMs ?? Infinity);
    const nextMs = Math.min(state.events.peek()?.atMs ?? Infinity, wakeAtMs);
    if (nextMs > options.untilMs) return done;
    const entries = step(state, nextMs);
    if (entries.length > 0) session.apply({ kind: "inbox", entries, nowMs: state.nowMs });
  }
}

function openPlay(ledger: Ledger, options: PlayOptions): PlayState {
  const { nowMs, policies, ports, runTimes, streams, random } = options;
  const session = openSession(ledger, {
    ...(policies !== undefined && { policies }),
    ...(ports !== undefined && { ports }),
    limits: SILENT_LIMITS,
  });
  const state: PlayState = {
    session,
    runTimes,
    ends: random.stream("ends"),
    arrivals: random.stream("comers"),
    startMs: nowMs,
    nowMs,
    events: heap((a, b) => (a.atMs === b.atMs ? a.order < b.order : a.atMs < b.atMs)),
    eventCount: 0,
    arrivalCount: 0,
    decisions: 0,
    leftMs: new Map(),
    endAtMs: new Map(),
    lagMs: 0,
  };
  for (const lease of ledger.leases.values()) {
    if (lease.state === "vacating") put(state, nowMs + VACATE_MS, { kind: "end", lease: lease.id });
    else start(state, lease);
    if (lease.eviction !== undefined)
      put(state, nowMs + yieldMs(state), { kind: "yield", lease: lease.id });
  }
  for (const stream of streams) putArrival(state, stream, nowMs + stream.lastsMs(state.arrivals));
  return state;
}

function put(state: PlayState, atMs: number, cause: Cause): void {
  state.eventCount += 1;
  state.events.push({ atMs, order: state.eventCount, cause });
}

/** The next arrival of the stream, unless the stream ends before it. */
function putArrival(state: PlayState, stream: ArrivalStream, lastAtMs: number): void {
  const atMs = state.nowMs + state.arrivals.exponential(stream.meanMs);
  if (atMs <= lastAtMs) put(state, atMs, { kind: "arrival", stream, lastAtMs });
}

const yieldMs = ({ ends }: PlayState): number => YIELD_MS * (1 + 4 * ends.unit());

function start(state: PlayState, lease: Lease): void {
  const { nowMs, runTimes, leftMs, ends } = state;
  const ranMs = Math.max(0, nowMs - lease.grantedAtMs);
  const fullMs = leftMs.get(lease.jobId) ?? runTimes.remainingMs(kindOf(lease), ranMs, ends);
  leftMs.delete(lease.jobId);
  const lastsMs = fullMs * (lease.slots === undefined ? slowness(lease) : 1);
  const atMs = nowMs + Math.max(0, lastsMs - state.lagMs);
  state.endAtMs.set(lease.id, atMs);
  put(state, atMs, { kind: "end", lease: lease.id });
}

/** Applies the plan, and starts its grants and evictions. Returns the granted leases. */
function carryOut(state: PlayState, plan: Plan): readonly Lease[] {
  const { session, nowMs } = state;
  const { granted } = session.apply({ kind: "plan", plan, nowMs });
  const { leases } = session.ledger;
  const started = granted.flatMap((id) => leases.get(id) ?? []);
  for (const lease of started) start(state, lease);
  const sent = (plan.evict ?? []).flatMap(({ lease: id }) =>
    leases.get(id)?.eviction === undefined ? [] : [id],
  );
  for (const id of sent) put(state, nowMs + yieldMs(state), { kind: "yield", lease: id });
  if (sent.length > 0) session.apply({ kind: "evictions-sent", sent, gone: [], nowMs });
  return started;
}

/** Advances to the end of the next step, and returns the inbox entries of all its events. */
function step(state: PlayState, nextMs: number): readonly InboxEntry[] {
  const { events, session } = state;
  const isFine = state.decisions <= FINE_STEPS;
  const soonestMs = Math.max(nextMs, state.nowMs + MIN_STEP_MS);
  const latestMs = Math.max(soonestMs, state.nowMs + STEP_SHARE * (state.nowMs - state.startMs));
  const mostEnds = Math.max(LEAST_ENDS, Math.ceil(ENDS_SHARE * session.ledger.leases.size));
  const entries: InboxEntry[] = [];
  let ends = 0;
  let arrivals = 0;
  let isCrowded = false;
  if (!isFine) state.nowMs = latestMs;
  for (let next = events.peek(); next !== undefined; next = events.peek()) {
    if (next.atMs > latestMs) break;
    const isFull = arrivals >= MOST_ARRIVALS;
    isCrowded = isFine && (isFull || (ends >= mostEnds && next.atMs > soonestMs));
    if (isCrowded) break;
    events.pop();
    state.nowMs = Math.max(state.nowMs, next.atMs);
    if (next.cause.kind === "arrival") arrivals += 1;
    else ends += 1;
    entries.push(...entriesOf(state, next.cause));
  }
  if (!isCrowded) state.nowMs = latestMs;
  state.lagMs = Math.max(0, state.nowMs - nextMs) / 2;
  return entries;
}

function entriesOf(state: PlayState, cause: Cause): InboxEntry[] {
  if (cause.kind === "arrival") {
    putArrival(state, cause.stream, cause.lastAtMs);
    state.arrivalCount += 1;
    return [{ kind: "request", request: arrivalOf(state, cause.stream) }];
  }
  const { nowMs, leftMs, endAtMs, session } = state;
  const lease = session.ledger.leases.get(cause.lease);
  if (lease === undefined) return [];
  const end: InboxEntry = {
    kind: "end",
    jobId: lease.jobId,
    runId: lease.runId,
    seq: lease.seq,
    unconfirmedHosts: [],
    ...(lease.slots !== undefined && { lease: lease.id }),
  };
  if (lease.state === "vacating")
    return [{ kind: "vacated", lease: lease.id, hosts: lease.vacatingHosts ?? [] }];
  if (cause.kind === "end" || lease.terms === undefined) return [end];
  leftMs.set(
    lease.jobId,
    Math.max(1, ((endAtMs.get(lease.id) ?? nowMs) - nowMs) / slowness(lease)),
  );
  return [end, { kind: "request", request: requeuedRequest(lease, nowMs) }];
}

function arrivalOf(
  { arrivals, arrivalCount, nowMs }: PlayState,
  stream: ArrivalStream,
): GangRequest {
  const { gpus, timeLimitMs, ...arrival } = stream.draw(arrivals);
  const name = `forecast-${arrivalCount}`;
  return {
    jobId: toJobId(name),
    runId: runId(name),
    seq: 1,
    name,
    ...arrival,
    priority: 0,
    gang: { gpus, min: gpus, timeoutMs: ms(30_000) },
    constraints: { isSameHost: false, isSameFabric: false },
    submittedAtMs: nowMs,
    requestedAtMs: nowMs,
    ...(timeLimitMs !== undefined && { timeLimitMs: ms(timeLimitMs) }),
  };
}

function kindOf({ class: jobClass, tenant, gpus, terms }: Lease): RunKind {
  const { timeLimitMs } = terms ?? {};
  return {
    class: jobClass,
    tenant,
    gpus: terms?.gang.gpus ?? gpuCountOf(gpus),
    ...(timeLimitMs !== undefined && { timeLimitMs }),
  };
}

/** A gang of half its GPUs takes twice as long. */
const slowness = ({ gpus, terms }: Lease): number =>
  terms === undefined ? 1 : Math.max(1, terms.gang.gpus / Math.max(1, gpuCountOf(gpus)));

/** The request of an evicted job. */
function requeuedRequest(lease: Lease, nowMs: number): GangRequest {
  const { jobId, runId: run, seq, tenant, class: jobClass, terms } = lease;
  if (terms === undefined) throw new RangeError(`${lease.id} has no terms to request again`);
  return {
    jobId,
    runId: run,
    seq: seq + 1,
    name: jobId,
    tenant,
    class: jobClass,
    ...terms,
    requestedAtMs: nowMs,
  };
}
