/** @file Nobody starves: the bound of starvation.ts against pools with bounded arrivals, and what it says in plain cases. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import { fifo } from "../../scheduling/queue/fifo.ts";
import type { QueuePolicy } from "../../scheduling/queue/queue-policy.ts";
import {
  burstGpuMs,
  starvationBoundMs,
  type FlowFacts,
  type SiblingFacts,
  type StarvationFacts,
} from "../../simulator/starvation.ts";
import { tawfq } from "../../scheduling/queue/tawfq.ts";
import { lagSeconds } from "../../scheduling/ledger/rules/service-account.ts";
import { rule, runPool, type PoolJob, type PoolMoment } from "../scheduling/queue/pool.ts";
import { caseCount } from "../support/case-count.ts";

const GPUS = 12;
const LONGEST_MS = 60_000;
const TENANTS = ["a", "b", "c"];
const RULES = [rule("b", 3)];
const WEIGHTS: Readonly<Record<string, number>> = {
  ...DEFAULT_POLICY.classWeights,
  a: 1,
  b: 3,
  c: 1,
};

const workOf = ({ gpus, runMs }: PoolJob): number => gpus * runMs;
const total = (parts: readonly number[]): number => parts.reduce((sum, part) => sum + part, 0);
const bornAtMs = ({ atMs, priority = 0 }: PoolJob): number =>
  atMs - priority * DEFAULT_POLICY.agingMs;

/** What is known of the whole stream, and of the moment at which a job comes. */
function factsAt(
  stream: readonly PoolJob[],
  job: PoolJob,
  { nowMs, book, waiting, running }: PoolMoment,
): StarvationFacts {
  type Is = (other: PoolJob) => boolean;
  const aheadOf = (is: Is): number =>
    total([...waiting.values()].filter(is).map(workOf)) +
    total(running.filter((run) => is(run.job)).map((run) => run.job.gpus * (run.endsAtMs - nowMs)));
  const siblingOf = (weight: number, is: Is): SiblingFacts => {
    const arrivals = stream.filter(is).map((one) => ({ atMs: one.atMs, gpuMs: workOf(one) }));
    const rateGpus = total(arrivals.map(({ gpuMs }) => gpuMs)) / (stream.at(-1)?.atMs ?? 1);
    return {
      weight,
      aheadGpuMs: aheadOf(is),
      rateGpus,
      burstGpuMs: burstGpuMs(arrivals, rateGpus),
    };
  };
  const levelOf = (flow: string, isOf: Is, siblings: readonly SiblingFacts[]): FlowFacts => ({
    weight: WEIGHTS[flow.split(" ").at(-1) ?? ""] ?? 1,
    lagSeconds: lagSeconds(book, flow),
    mostGpus: Math.min(GPUS, total(stream.filter(isOf).map(({ gpus }) => gpus)) - job.gpus),
    siblings,
  });
  const isOwn: Is = (one) => one.class === job.class && one.tenant === job.tenant;
  const isBefore: Is = (one) => isOwn(one) && one !== job && bornAtMs(one) <= bornAtMs(job);
  const toCome = stream.filter((one) => one.atMs >= nowMs && isBefore(one));
  const held = running.filter((run) => isOwn(run.job));
  return {
    busyGpus: GPUS - Math.max(...stream.map(({ gpus }) => gpus)) + 1,
    passedGpus: 0,
    ownGpuMs:
      total([...waiting.values()].filter(isBefore).map(workOf)) +
      total(held.map((run) => run.job.gpus * (run.endsAtMs - nowMs))) +
      total(toCome.map(workOf)),
    heldGpuMs: GPUS * Math.max(...stream.map(({ runMs }) => runMs)),
    levels: [
      levelOf(
        `${job.class} ${job.tenant}`,
        isOwn,
        TENANTS.filter((tenant) => tenant !== job.tenant).map((tenant) =>
          siblingOf(
            WEIGHTS[tenant] ?? 1,
            (one) => one.class === job.class && one.tenant === tenant,
          ),
        ),
      ),
      levelOf(
        job.class,
        (one) => one.class === job.class,
        JOB_CLASSES.filter((each) => each !== job.class).map((each) =>
          siblingOf(WEIGHTS[each] ?? 1, (one) => one.class === each),
        ),
      ),
    ],
  };
}

/** The wait of each judged job, as a part of its bound. */
function waitsByBound(
  policy: QueuePolicy,
  stream: readonly PoolJob[],
  isEvaluated: (job: PoolJob) => boolean = () => true,
): readonly number[] {
  const bounds = new Map<string, number>();
  const { started } = runPool(policy, stream, {
    gpuCount: GPUS,
    tenants: RULES,
    watch: {
      arrival: (name, job, moment) => {
        if (isEvaluated(job)) bounds.set(name, starvationBoundMs(factsAt(stream, job, moment)));
      },
    },
  });
  expect(started.size).toBe(stream.length);
  return [...bounds].map(([name, boundMs]) => {
    const { job, startedAtMs = Infinity } = started.get(name) ?? {};
    return (startedAtMs - (job?.atMs ?? 0)) / boundMs;
  });
}

const streams = fc
  .array(
    fc.record({
      class: fc.constantFrom(...JOB_CLASSES),
      tenant: fc.constantFrom(...TENANTS),
      gpus: fc.constantFrom(1, 2, 1, 4, 8),
      atMs: fc.nat(600_000),
      runMs: fc.integer({ min: 1, max: LONGEST_MS }),
      priority: fc.integer({ min: -3, max: 3 }),
    }),
    { minLength: 20, maxLength: 90 },
  )
  .map((stream) => stream.sort((a, b) => a.atMs - b.atMs));

test("no job waits longer than the bound, whatever comes, as long as what comes is bounded", () => {
  fc.assert(
    fc.property(streams, (stream) => {
      for (const part of waitsByBound(tawfq, stream)) expect(part).toBeLessThanOrEqual(1);
    }),
    { numRuns: caseCount(100) },
  );
});

describe("one small job of the lightest class in a flood of the heaviest", () => {
  const flood = Array.from({ length: 4_000 }, (_, at) => ({
    class: "inference" as const,
    tenant: "a",
    gpus: 1,
    atMs: 100 * at,
    runMs: 2_000,
    priority: 1000,
  }));
  const poor: PoolJob = { class: "training", tenant: "c", gpus: 1, atMs: 50_000, runMs: 1_000 };
  const stream = [...flood, poor].sort((a, b) => a.atMs - b.atMs);
  const isPoor = (job: PoolJob): boolean => job === poor;

  test("is within its bound", () => {
    expect(Math.max(...waitsByBound(tawfq, stream, isPoor))).toBeLessThanOrEqual(1);
  });

  test("is beyond it where priority goes before all", () => {
    expect(Math.max(...waitsByBound(fifo, stream, isPoor))).toBeGreaterThan(1);
  });
});

describe("the bound", () => {
  const alone: FlowFacts = { weight: 1, lagSeconds: 0, mostGpus: 0, siblings: [] };
  const facts: StarvationFacts = {
    busyGpus: 10,
    passedGpus: 0,
    ownGpuMs: 50_000,
    heldGpuMs: 0,
    levels: [alone],
  };
  const sibling = { weight: 9, aheadGpuMs: 1e9, burstGpuMs: 0, rateGpus: 100 };
  test.each<{ readonly name: string; readonly given: StarvationFacts; readonly wantMs: number }>([
    { name: "is the work before it, done by all that works", given: facts, wantMs: 5_000 },
    {
      name: "is that at its share of the fleet, while a heavier sibling asks for more than there is",
      given: { ...facts, levels: [{ ...alone, siblings: [sibling] }] },
      wantMs: 50_000,
    },
    {
      name: "counts what it has received ahead of the others",
      given: { ...facts, levels: [{ ...alone, lagSeconds: 10, siblings: [sibling] }] },
      wantMs: 59_000,
    },
    {
      name: "counts no more of a sibling than it asks for",
      given: {
        ...facts,
        levels: [
          { ...alone, siblings: [{ ...sibling, aheadGpuMs: 0, burstGpuMs: 10_000, rateGpus: 4 }] },
        ],
      },
      wantMs: 10_000,
    },
    {
      name: "is none where more is granted past it than its share makes up for",
      given: { ...facts, passedGpus: 1, levels: [{ ...alone, siblings: [sibling] }] },
      wantMs: Infinity,
    },
  ])("$name", ({ given, wantMs }) => {
    const boundMs = starvationBoundMs(given);
    expect(boundMs).toBeGreaterThanOrEqual(wantMs);
    if (wantMs < Infinity) expect(boundMs).toBeLessThan(wantMs + 2);
  });
});

test("the burst is the least with which arrivals keep to the rate in every span", () => {
  const arrivals = fc
    .array(fc.record({ atMs: fc.nat(100), gpuMs: fc.nat(50) }), { maxLength: 12 })
    .map((all) => all.sort((a, b) => a.atMs - b.atMs));
  fc.assert(
    fc.property(arrivals, fc.nat(5), (all, rateGpus) => {
      let want = 0;
      all.forEach((from, at) => {
        let came = 0;
        for (const to of all.slice(at)) {
          came += to.gpuMs;
          want = Math.max(want, came - rateGpus * (to.atMs - from.atMs));
        }
      });
      expect(burstGpuMs(all, rateGpus)).toBe(want);
    }),
  );
});
