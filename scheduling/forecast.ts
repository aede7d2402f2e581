/**
 * @file When jobs that wait will start: the queue is played forward many times, and the starts are told as an interval.
 *
 * Each play is the fleet's own `apply` and `decide` on a copy of its ledger: what runs ends after a time drawn from how long others
 * ran (run-times.ts), what starts runs for such a time, and more jobs arrive as they did lately, for a while (arrivals.ts); who is
 * evicted asks again. A job that the fleet decided on is what the fleet will do; all that is uncertain is time, and who comes.
 * Each play draws from noted runs that are drawn anew themselves, since those that were noted are a sample, too.
 * The plays' interval goes from the 10th to the 90th of 100 in order; a play that ends at the horizon counts as later. What is told is
 * stretched by how far off the fleet's own such intervals were (calibration.ts).
 * A time step is as long as 15 % of what lies between now and then, so fifty decisions reach a month. In the first hundred it ends when a
 * twelfth of the leases has ended, too: whoever follows a short job would else wait for the rest of a long step, and a queue of short
 * jobs would look many times too long. What starts at the end of a step counts as started in its middle.
 * Same ledger, time and seed: the same answer. Cost: `samples` · steps decisions, at most `maxDecisions` in all.
 */

import { jobId as toJobId, runId, type JobId, type LeaseId } from "../domain/ids.ts";
import { gpuCountOf, type GangRequest, type Lease } from "../domain/lease.ts";
import type { Plan } from "../domain/plan.ts";
import { ms } from "../domain/units.ts";
import { heap } from "../lib/heap.ts";
import { randomFrom, type Random } from "../lib/random.ts";
import { arrivalsOf, type ArrivalStream } from "./arrivals.ts";
import { learnedStretch, stretched } from "./calibration.ts";
import type { DecidePorts, Policies } from "./cycle.ts";
import { DECIDE_LIMITS } from "./decide.ts";
import type { InboxEntry, Ledger } from "./ledger.ts";
import { runTimesOf, type RunKind, type RunTimes } from "./run-times.ts";
import { openSession } from "./session.ts";

export interface ForecastOptions {
  readonly nowMs: number;
  readonly seed?: number;
  readonly samples?: number;
  /** Decisions in all plays together; with none left, what has not started counts as later. */
  readonly maxDecisions?: number;
  /** Beyond this nobody plays on. */
  readonly horizonMs?: number;
  readonly policies?: Policies;
  readonly ports?: DecidePorts;
}

export const FORECAST_DEFAULTS = Object.freeze({
  seed: 1,
  samples: 10,
  maxDecisions: 1_500,
  horizonMs: 30 * 86_400_000,
});

export interface Forecast {
  readonly jobId: JobId;
  /** Of the plays in order of time; infinite where it started in none before the horizon. */
  readonly fromMs: number;
  readonly medianMs: number;
  readonly toMs: number;
  readonly plays: number;
  /** Runs that the times were drawn from. */
  readonly runs: number;
  /** Former estimates of the fleet's that have come out, by which the interval is stretched. */
  readonly learned: number;
}

/** Of each job that waits in this ledger; jobs that do not are left out. */
export const forecast = (
  ledger: Ledger,
  jobs: Iterable<JobId>,
  options: ForecastOptions,
): readonly Forecast[] => calibrated(playForward(ledger, jobs, options), ledger, options.nowMs);

/** What plays said, as it is told: stretched by what this fleet has learned. */
export function calibrated(
  played: readonly Forecast[],
  { foreseen = [] }: Ledger,
  nowMs: number,
): readonly Forecast[] {
  const stretch = learnedStretch(foreseen, nowMs);
  return played.map((told) => stretched(told, nowMs, stretch));
}

/** The same as the plays alone have it; all jobs are asked about in the same plays. */
export function playForward(
  ledger: Ledger,
  jobs: Iterable<JobId>,
  options: ForecastOptions,
): readonly Forecast[] {
  const { nowMs } = options;
  const { seed, samples, maxDecisions, horizonMs } = { ...FORECAST_DEFAULTS, ...options };
  const targets = [...new Set(jobs)].filter((job) => ledger.requests.has(job));
  const notes = ledger.runs ?? [];
  const streams = arrivalsOf(ledger, nowMs);
  const starts = new Map<JobId, number[]>(targets.map((job) => [job, []]));
  const random = randomFrom(seed, "forecast");
  let decisions = 0;
  let plays = 0;
  while (targets.length > 0 && plays < samples && decisions < maxDecisions) {
    const inPlay = random.stream(String(plays));
    const runTimes = runTimesOf(notes, ledger.leases.values(), nowMs, inPlay.stream("notes"));
    const world = { runTimes, streams, random: inPlay, options };
    const untilMs = nowMs + horizonMs;
    const limit = { untilMs, decisions: maxDecisions - decisions };
    const played = play(ledger, new Set(targets), { ...world, limit });
    decisions += played.decisions;
    // A play that was cut short, not by the horizon, says nothing of who had not started.
    if (played.isCut && plays > 0) break;
    plays += 1;
    for (const [job, times] of starts) times.push(played.startsAtMs.get(job) ?? Infinity);
  }
  const learned = (ledger.foreseen ?? []).filter((each) => each.outcome.kind === "started").length;
  return targets.map((job) => {
    const times = (starts.get(job) ?? []).sort((a, b) => a - b);
    const [fromMs, medianMs, toMs] = [0.1, 0.5, 0.9].map((share) => quantile(times, share));
    const none = Infinity;
    return {
      jobId: job,
      fromMs: fromMs ?? none,
      medianMs: medianMs ?? none,
      toMs: toMs ?? none,
      plays,
      runs: notes.length,
      learned,
    };
  });
}

/** The order statistic that a next draw lies below with this probability, or the nearest there is. */
function quantile(sorted: readonly number[], share: number): number {
  const rank = share * (sorted.length + 1);
  const at = share < 0.5 ? Math.floor(rank) : Math.ceil(rank);
  return sorted[Math.min(sorted.length, Math.max(1, at)) - 1] ?? Infinity;
}

interface World {
  readonly runTimes: RunTimes;
  readonly streams: readonly ArrivalStream[];
  readonly random: Random;
  readonly options: ForecastOptions;
  readonly limit: { readonly untilMs: number; readonly decisions: number };
}

type What =
  | { readonly kind: "end" | "yield"; readonly lease: LeaseId }
  | { readonly kind: "arrival"; readonly stream: ArrivalStream; readonly lastAtMs: number };

interface Happening {
  readonly atMs: number;
  readonly order: number;
  readonly what: What;
}

/** Writing a checkpoint and stopping takes from this time on, to five times as long. */
const YIELD_MS = 1_000;
/** A lease whose job is gone, until its hosts have confirmed. */
const VACATE_MS = 2_000;
const MIN_STEP_MS = 1_000;
/** Of the time since now. */
const STEP_SHARE = 0.15;
/** Of the leases: no more end in one step, unless within `MIN_STEP_MS`. */
const ENDS_SHARE = 1 / 12;
const LEAST_ENDS = 2;
/** The same of jobs that come. */
const MOST_ARRIVALS = 64;
/** So many decisions of a play are made in such steps; a play that goes on is bounded by time alone. */
const FINE_STEPS = 100;

interface Play {
  readonly startsAtMs: ReadonlyMap<JobId, number>;
  readonly decisions: number;
  readonly isCut: boolean;
}

function play(ledger: Ledger, waiting: Set<JobId>, world: World): Play {
  const { runTimes, streams, random, options, limit } = world;
  const { nowMs: fromMs, policies, ports } = options;
  const session = openSession(ledger, {
    ...(policies !== undefined && { policies }),
    ...(ports !== undefined && { ports }),
    limits: { ...DECIDE_LIMITS, maxReasons: 0, freshReasons: 0 },
  });
  const startsAtMs = new Map<JobId, number>();
  let nowMs = fromMs;
  const queue = heap<Happening>((a, b) =>
    a.atMs === b.atMs ? a.order < b.order : a.atMs < b.atMs,
  );
  let order = 0;
  let decisions = 0;
  let comers = 0;
  const put = (atMs: number, what: What): void => {
    order += 1;
    queue.push({ atMs, order, what });
  };
  const draws = { ends: random.stream("ends"), comers: random.stream("comers") };
  const yieldMs = (): number => YIELD_MS * (1 + 4 * draws.ends.unit());
  /** Of jobs that were stopped: how much longer they run on all the GPUs that they asked for. */
  const leftMs = new Map<JobId, number>();
  const endAtMs = new Map<LeaseId, number>();
  /** Half of the time from the first happening of the last step to its end: so much earlier, on average, were the GPUs free. */
  let lagMs = 0;
  const start = (lease: Lease, nowMs: number): void => {
    const kind = kindOf(lease);
    const ranMs = Math.max(0, nowMs - lease.grantedAtMs);
    const fullMs = leftMs.get(lease.jobId) ?? runTimes.remainingMs(kind, ranMs, draws.ends);
    leftMs.delete(lease.jobId);
    const lastsMs = fullMs * (lease.slots === undefined ? slowness(lease) : 1);
    const atMs = nowMs + Math.max(0, lastsMs - lagMs);
    endAtMs.set(lease.id, atMs);
    put(atMs, { kind: "end", lease: lease.id });
  };
  for (const lease of ledger.leases.values()) {
    if (lease.state === "vacating") put(fromMs + VACATE_MS, { kind: "end", lease: lease.id });
    else start(lease, fromMs);
    if (lease.eviction !== undefined) put(fromMs + yieldMs(), { kind: "yield", lease: lease.id });
  }
  const comesNext = (stream: ArrivalStream, lastAtMs: number): void => {
    const atMs = nowMs + draws.comers.exponential(stream.meanMs);
    if (atMs <= lastAtMs) put(atMs, { kind: "arrival", stream, lastAtMs });
  };
  for (const stream of streams) comesNext(stream, fromMs + stream.lastsMs(draws.comers));

  for (;;) {
    if (decisions >= limit.decisions) return { startsAtMs, decisions, isCut: true };
    const plan = session.decide(nowMs);
    decisions += 1;
    carryOut(plan);
    if (waiting.size === 0) return { startsAtMs, decisions, isCut: false };
    const wakeAtMs = Math.max(nowMs + MIN_STEP_MS, plan.wakeAtMs ?? Infinity);
    const nextMs = Math.min(queue.peek()?.atMs ?? Infinity, wakeAtMs);
    if (nextMs > limit.untilMs) return { startsAtMs, decisions, isCut: false };
    const entries = step(nextMs);
    if (entries.length > 0) session.apply({ kind: "inbox", entries, nowMs });
  }

  /** On to the end of the next step, with all that happens in it. */
  function step(nextMs: number): readonly InboxEntry[] {
    const isFine = decisions <= FINE_STEPS;
    const soonestMs = Math.max(nextMs, nowMs + MIN_STEP_MS);
    const latestMs = Math.max(soonestMs, nowMs + STEP_SHARE * (nowMs - fromMs));
    const mostEnds = Math.max(LEAST_ENDS, Math.ceil(ENDS_SHARE * session.ledger.leases.size));
    const entries: InboxEntry[] = [];
    let ends = 0;
    let arrivals = 0;
    let isCrowded = false;
    if (!isFine) nowMs = latestMs;
    for (let next = queue.peek(); next !== undefined; next = queue.peek()) {
      if (next.atMs > latestMs) break;
      const isFull = arrivals >= MOST_ARRIVALS;
      isCrowded = isFine && (isFull || (ends >= mostEnds && next.atMs > soonestMs));
      if (isCrowded) break;
      queue.pop();
      nowMs = Math.max(nowMs, next.atMs);
      if (next.what.kind === "arrival") arrivals += 1;
      else ends += 1;
      entries.push(...entriesOf(next.what));
    }
    if (!isCrowded) nowMs = latestMs;
    lagMs = Math.max(0, nowMs - nextMs) / 2;
    return entries;
  }

  function carryOut(plan: Plan): void {
    const { granted } = session.apply({ kind: "plan", plan, nowMs });
    const { leases } = session.ledger;
    for (const id of granted) {
      const lease = leases.get(id);
      if (lease === undefined) continue;
      start(lease, nowMs);
      if (waiting.delete(lease.jobId)) startsAtMs.set(lease.jobId, nowMs - lagMs);
    }
    const sent = (plan.evict ?? []).flatMap(({ lease: id }) =>
      leases.get(id)?.eviction === undefined ? [] : [id],
    );
    for (const id of sent) put(nowMs + yieldMs(), { kind: "yield", lease: id });
    if (sent.length > 0) session.apply({ kind: "evictions-sent", sent, gone: [], nowMs });
  }

  function entriesOf(what: What): InboxEntry[] {
    if (what.kind === "arrival") {
      const { stream } = what;
      comesNext(stream, what.lastAtMs);
      comers += 1;
      return [{ kind: "request", request: comerOf(stream, `forecast-${comers}`) }];
    }
    const lease = session.ledger.leases.get(what.lease);
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
    if (what.kind === "end" || lease.terms === undefined) return [end];
    leftMs.set(
      lease.jobId,
      Math.max(1, ((endAtMs.get(lease.id) ?? nowMs) - nowMs) / slowness(lease)),
    );
    return [end, { kind: "request", request: returnOf(lease, nowMs) }];
  }

  function comerOf(stream: ArrivalStream, name: string): GangRequest {
    const { gpus, timeLimitMs, ...comer } = stream.draw(draws.comers);
    return {
      jobId: toJobId(name),
      runId: runId(name),
      seq: 1,
      name,
      ...comer,
      priority: 0,
      gang: { gpus, min: gpus, timeoutMs: ms(30_000) },
      constraints: { isSameHost: false, isSameFabric: false },
      submittedAtMs: nowMs,
      requestedAtMs: nowMs,
      ...(timeLimitMs !== undefined && { timeLimitMs: ms(timeLimitMs) }),
    };
  }
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

/** What an evicted job asks for again. */
function returnOf(lease: Lease, nowMs: number): GangRequest {
  const { jobId, runId: run, seq, tenant, class: jobClass, terms } = lease;
  if (terms === undefined) throw new RangeError(`${lease.id} has no terms to ask again by`);
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
