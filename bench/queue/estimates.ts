/**
 * @file How often the true start of a job that waits lies in the interval that `explain` states: Philly's jobs at load 0.9.
 *
 * At times drawn at random the ledger that a user would ask is played forward (forecast.ts) for a few of the jobs that wait, drawn at
 * random, too; all that are asked about at one time share the plays. The true start is the grant of the very request: a job that is
 * evicted later asks again, and that is another question. An 80 % interval should be right in four cases of five: one that is
 * always right is too wide to be of use. The fleet learns as the live one does: now and then it estimates starts of its own waiting
 * jobs and keeps what came of it (simulator/self-estimates.ts); its questions are others than the bench's. The bars count all
 * questions, the first ones included, when the fleet has seen no start yet; the second half of them, what the plays say alone, and what the
 * fixed stretch makes of them, are reported beside it. No job late in the trace is asked about: there the plays expect jobs that the trace does not have.
 * Cost: a forecast a question, and one in each half hour in which jobs wait.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import { randomFrom, sampled } from "../../lib/random.ts";
import { stretched } from "../../scheduling/estimates/interval-calibration.ts";
import { awaited, calibrated, playForward } from "../../scheduling/forecast/forecast.ts";
import type { Interval } from "../../scheduling/ledger/rules/start-estimates.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { schedulerBut, schedulerWith, type OpenScheduler } from "../../simulator/scheduler.ts";
import { selfEstimating } from "../../simulator/self-estimates.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { traceWorkload } from "../../simulator/readers/trace-workload.ts";
import { atLeast, atMost, barOf, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { ENTRANTS } from "../../simulator/entrants/entrants.ts";
import { phillyTrace } from "./philly.ts";
import { runOne } from "./run-one.ts";

const LOAD = 0.9;
const FLEET_GPUS = 256;
/** Questions at one time. */
const AT_ONCE = 3;
/** Times are drawn from this share of the time from the first to the last arrival. */
const ASKED_SHARE = 0.85;

const LEAST = { id: "estimate-coverage-least", unit: "%", target: atLeast(75) } as const;
const MOST = { id: "estimate-coverage-most", unit: "%", target: atMost(85) } as const;
const ALONE = { id: "estimate-coverage-plays-alone", unit: "%", target: REPORTED } as const;
const FIXED = { id: "estimate-coverage-fixed", unit: "%", target: REPORTED } as const;
const LATE = { id: "estimate-coverage-second-half", unit: "%", target: REPORTED } as const;
const EARLY = { id: "estimate-starts-earlier", unit: "%", target: REPORTED } as const;
const WIDTH = { id: "estimate-width", unit: "×", target: atMost(20) } as const;
const WIDTH_FIXED = { id: "estimate-width-fixed", unit: "×", target: REPORTED } as const;

/** The plays' estimate, the stated interval, and the true start. */
interface Answered {
  readonly played: Interval;
  /** With the wait so far in it. */
  readonly awaited: Interval;
  readonly stated: Interval;
  readonly learned: number;
  readonly nowMs: number;
  readonly startMs: number;
}

export async function measureEstimates(request: BenchRequest): Promise<readonly Bar[]> {
  const times = request.size("estimates");
  const read = await phillyTrace();
  if (read.trace === undefined) return [unmeasured(LEAST, read.why)];
  const { trace } = read;
  const fleet = fleetOf([FLEET_GPUS]);
  const jobs = request.size("estimate-jobs");
  const workload = traceWorkload(trace, { name: "philly", fleet, load: LOAD, jobs });
  const spanMs = (workload.jobs.at(-1)?.submittedAtMs ?? 0) * ASKED_SHARE;
  const questions = questionsAt(spanMs, { times, seed: request.seed });
  const options = {
    fleet,
    workload,
    policy: "tawfq",
    openScheduler: asking(selfEstimating(schedulerWith(ENTRANTS.tawfq.policies)), questions),
    seed: request.seed,
  };
  request.say(`estimates: Philly at load ${String(LOAD)}, asked at ${String(times)} times`);
  await runOne(options, request);
  return barsOf(questions.answered(), `${String(FLEET_GPUS)} GPUs, ${String(jobs)} jobs`);
}

function barsOf(answered: readonly Answered[], of: string): readonly Bar[] {
  const half = answered.filter(({ nowMs }) => nowMs < (answered[answered.length >> 1]?.nowMs ?? 0));
  const rest = answered.slice(half.length);
  const [first] = rest;
  if (half.length === 0 || first === undefined) return [unmeasured(LEAST, "too few jobs waited")];
  const shown = (each: Answered): Interval => each.stated;
  const fixed = (each: Answered): Interval => stretched(each.awaited, each.nowMs);
  const got = coverage(answered, shown);
  const note = `of ${String(answered.length)} true starts; ${of}`;
  const early = answered.filter(({ stated, startMs }) => startMs < stated.fromMs).length;
  return [
    barOf({ ...LEAST, got, note }),
    barOf({ ...MOST, got }),
    barOf({
      ...LATE,
      got: coverage(rest, shown),
      note: `${String(first.learned)} starts known to the fleet at its beginning`,
    }),
    barOf({ ...EARLY, got: (100 * early) / answered.length, note: "than stated" }),
    barOf({ ...ALONE, got: coverage(answered, ({ played }) => played) }),
    barOf({
      ...FIXED,
      got: coverage(answered, fixed),
      note: "the stretch of a fleet without a past",
    }),
    barOf({
      ...WIDTH,
      got: medianWidth(answered, shown),
      note: "longest over shortest wait of an interval, median",
    }),
    barOf({ ...WIDTH_FIXED, got: medianWidth(answered, fixed) }),
  ];
}

function coverage(answered: readonly Answered[], intervalOf: (each: Answered) => Interval): number {
  const hits = answered.filter((each) => {
    const { fromMs, toMs } = intervalOf(each);
    return each.startMs >= fromMs && each.startMs <= toMs;
  });
  return (100 * hits.length) / answered.length;
}

function medianWidth(
  answered: readonly Answered[],
  intervalOf: (each: Answered) => Interval,
): number {
  const widths = answered.map((each) => {
    const { fromMs, toMs } = intervalOf(each);
    return (toMs - each.nowMs) / Math.max(1_000, fromMs - each.nowMs);
  });
  return widths.sort((a, b) => a - b)[widths.length >> 1] ?? NaN;
}

interface Questions {
  readonly isDue: (nowMs: number) => boolean;
  readonly ask: (ledger: Ledger, nowMs: number) => void;
  readonly note: (request: Pick<PendingRequest, "jobId" | "seq">, startMs: number) => void;
  /** In the order in which they were asked; what never started, started after all. */
  readonly answered: () => readonly Answered[];
}

function questionsAt(
  spanMs: number,
  { times, seed }: { readonly times: number; readonly seed: number },
): Questions {
  const random = randomFrom(seed, "questions");
  const dueMs = Array.from({ length: times }, () => random.unit() * spanMs).sort((a, b) => a - b);
  const asked: ({ readonly key: string } & Omit<Answered, "startMs">)[] = [];
  const startsMs = new Map<string, number>();
  let next = 0;
  const keyOf = ({ jobId, seq }: Pick<PendingRequest, "jobId" | "seq">): string =>
    `${jobId} ${String(seq)}`;
  return {
    isDue: (nowMs) => (dueMs[next] ?? Infinity) <= nowMs,
    ask(ledger, nowMs) {
      while ((dueMs[next] ?? Infinity) <= nowMs) next += 1;
      const chosen = sampled([...ledger.requests.keys()], AT_ONCE, random);
      const played = playForward(ledger, chosen, { nowMs, seed: seed + next });
      const withWaits = awaited(played, ledger, nowMs);
      const stated = calibrated(played, ledger, nowMs);
      for (const [at, each] of stated.entries()) {
        const request = ledger.requests.get(each.jobId);
        if (request === undefined) continue;
        const { learned } = each;
        asked.push({
          key: keyOf(request),
          played: played[at] ?? each,
          awaited: withWaits[at] ?? each,
          stated: each,
          learned,
          nowMs,
        });
      }
    },
    note: (request, startMs) => startsMs.set(keyOf(request), startMs),
    answered: () =>
      asked.map(({ key, ...each }) => ({ ...each, startMs: startsMs.get(key) ?? Infinity })),
  };
}

/** Asks at the times that are due, without any effect on the scheduler. */
const asking =
  (open: OpenScheduler, questions: Questions): OpenScheduler =>
  (ledger) => {
    const scheduler = open(ledger);
    return schedulerBut(scheduler, {
      apply(event) {
        const applied = scheduler.apply(event);
        if (event.kind !== "plan") return applied;
        for (const id of applied.granted) {
          const lease = scheduler.ledger.leases.get(id);
          if (lease !== undefined) questions.note(lease, event.nowMs);
        }
        if (questions.isDue(event.nowMs)) questions.ask(scheduler.ledger, event.nowMs);
        return applied;
      },
    });
  };
