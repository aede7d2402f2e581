/** @file Jobs over clusters: what is drawn, how long steps take, and that a played queue keeps its rules. */
import { describe, expect, test } from "vitest";
import { MODEL_PRESETS } from "../../../domain/model/model-presets.ts";
import { randomFrom } from "../../../lib/random.ts";
import { bestClusters } from "../../../scheduling/placement/best-clusters.ts";
import { mast, opportunistic } from "../../../bench/rivals/placement/clusters.ts";
import { parameterCount } from "../../../planning/parallelism/models.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import { play, type Method, type Outcome } from "../../../simulator/spiderflow/play.ts";
import {
  openStepClock,
  type ClockFleet,
  type StepQuestion,
} from "../../../simulator/spiderflow/step-clock.ts";
import {
  trainingJobs,
  type TraceJob,
  type WorkloadShape,
} from "../../../simulator/spiderflow/workload.ts";
import { roomOf } from "../../scheduling/placement/clusters.ts";

const GPUS = [4, 2, 2, 2];
const SHAPE: WorkloadShape = {
  clusters: 4,
  fleetGpus: 10,
  largestCluster: 4,
  beyondShare: 0.4,
  furthest: 8,
  load: 1.2,
  cardGiB: 80,
};
const TRACE = Array.from({ length: 200 }, (_, at): TraceJob => ({
  arrivalMs: 1_000_000 + at * 60_000,
  durationMs: 60_000 * (1 + (at % 7)),
}));
const jobs = trainingJobs(TRACE, SHAPE, randomFrom(1, "jobs"));

const FLEET: ClockFleet = {
  hostGpus: 4,
  cardGiB: 80,
  teraflops: 312,
  insideOf: () => ({ gbs: 25, latencyMs: 0.01 }),
  fabric: { gbs: 1, latencyMs: 0.05 },
  wanLatencyMs: 10,
};

describe("jobs", () => {
  test("come at the offered load, in the order of the trace, the first at once", () => {
    const work = jobs.reduce((sum, { gpus, durationMs }) => sum + gpus * durationMs, 0);
    const span = jobs.at(-1)?.arrivalMs ?? 0;
    expect(work / (span * SHAPE.fleetGpus)).toBeCloseTo(SHAPE.load, 9);
    expect(jobs[0]?.arrivalMs).toBe(0);
    expect(jobs.every(({ arrivalMs }, at) => arrivalMs >= (jobs[at - 1]?.arrivalMs ?? 0))).toBe(
      true,
    );
  });

  test("ask for more than the largest cluster about as often as is said, and never for more than the furthest", () => {
    const beyond = jobs.filter(({ gpus }) => gpus > SHAPE.largestCluster).length / jobs.length;
    expect(beyond).toBeGreaterThan(0.3);
    expect(beyond).toBeLessThan(0.5);
    expect(Math.max(...jobs.map(({ gpus }) => gpus))).toBeLessThanOrEqual(SHAPE.furthest);
  });

  test("train models whose weights, gradients and optimiser state their GPUs hold", () => {
    for (const { model, gpus } of jobs)
      expect(16 * parameterCount(model)).toBeLessThanOrEqual(gpus * 80 * 2 ** 30);
  });
});

const shape = MODEL_PRESETS.get("gpt2-1.3b");
if (shape === undefined) throw new Error("no such preset");
const model = presetModel("gpt2-1.3b", shape);
const question = (gpus: readonly number[], gbs: number): StepQuestion => ({
  model,
  batch: 4 * gpus.reduce((sum, own) => sum + own, 0),
  parts: gpus.map((own, cluster) => ({ cluster, gpus: own })),
  gbsBetween: () => gbs,
});

describe("a step", () => {
  const clock = openStepClock(FLEET);
  const msOf = (...asked: Parameters<typeof clock>): number => clock(...asked)?.stepMs ?? Infinity;

  test("takes longer over more clusters and over narrower links", () => {
    const one = msOf(question([4], 1), "plain");
    const two = msOf(question([2, 2], 1), "plain");
    expect(two).toBeGreaterThan(one);
    expect(msOf(question([1, 1, 1, 1], 1), "plain")).toBeGreaterThan(two);
    expect(msOf(question([2, 2], 0.25), "plain")).toBeGreaterThan(two);
  });

  test("is never longer planned than arranged or plain, and never shorter than in one cluster", () => {
    for (const gbs of [0.1, 1, 10]) {
      const planned = msOf(question([2, 2], gbs), "planned");
      expect(planned).toBeLessThanOrEqual(msOf(question([2, 2], gbs), "arranged"));
      expect(planned).toBeLessThanOrEqual(msOf(question([2, 2], gbs), "plain"));
      expect(planned).toBeGreaterThanOrEqual(msOf(question([4], gbs), "planned"));
    }
  });

  test("of clusters that may idle is the shortest over all sets of them, for the same batch", () => {
    const random = randomFrom(1, "sparing");
    // Hosts whose cards are as wide as the widest of these links: else all gangs stay in one cluster.
    const wide = openStepClock({ ...FLEET, fabric: { gbs: 25, latencyMs: 0.05 } });
    const planned = (asked: StepQuestion): number => wide(asked, "planned")?.stepMs ?? Infinity;
    let idle = 0;
    for (let turn = 0; turn < 40; turn += 1) {
      const gpus = Array.from({ length: 2 + random.below(2) }, () => 1 + random.below(4));
      const gbs = 0.02 + random.unit() * (turn % 2 === 0 ? 0.2 : 20);
      const whole = question(gpus, gbs);
      const found = wide(whole, "sparing");
      const sets = Array.from({ length: 2 ** gpus.length - 1 }, (_, mask) =>
        whole.parts.filter((__, place) => (((mask + 1) >> place) & 1) === 1),
      );
      const shortest = Math.min(...sets.map((parts) => planned({ ...whole, parts })));
      expect(found?.stepMs).toBe(shortest);
      const used = found?.used.flatMap((place) => whole.parts[place] ?? []) ?? [];
      expect(planned({ ...whole, parts: used })).toBe(shortest);
      if (used.length < gpus.length) idle += 1;
    }
    expect(idle).toBeGreaterThan(5);
    expect(idle).toBeLessThan(35);
  });

  test("of a model that no split fits is none", () => {
    const small = openStepClock({ ...FLEET, cardGiB: 2 });
    expect(small(question([1], 1), "planned")).toBeUndefined();
    expect(small(question([1, 1], 1), "sparing")).toBeUndefined();
  });
});

describe("a queue", () => {
  const room = roomOf({ a: 4, b: 2, c: 2, d: 2 }, [
    { between: "ab", gbps: 10 },
    { between: "bc", gbps: 2 },
    { between: "cd", gbps: 5 },
  ]);
  const setting = { fleet: { graph: room.links.graph, gpus: GPUS }, clock: openStepClock(FLEET) };
  const ours: Method = { name: "ours", policy: bestClusters, split: "planned" };
  const outcomes = [
    ours,
    { ...ours, name: "sparing", split: "sparing" } as const,
    { name: "Opportunistic", policy: opportunistic, split: "plain" } as const,
    { name: "MAST", policy: mast, split: "plain", most: 4 } as const,
  ].map((method) => play(jobs, method, setting));

  const heldAt = (outcome: Outcome, atMs: number): number =>
    outcome.jobs
      .filter(({ startMs, runMs }) => startMs <= atMs && atMs < startMs + runMs)
      .reduce((sum, { gpus }) => sum + gpus, 0);

  test.each(outcomes)("$method starts all jobs in order and never holds too much", (outcome) => {
    expect(outcome.jobs.map(({ number }) => number)).toEqual(jobs.map(({ number }) => number));
    for (const [at, job] of outcome.jobs.entries()) {
      expect(job.queuedMs).toBeGreaterThanOrEqual(0);
      expect(job.startMs).toBeGreaterThanOrEqual(outcome.jobs[at - 1]?.startMs ?? 0);
      expect(heldAt(outcome, job.startMs)).toBeLessThanOrEqual(SHAPE.fleetGpus);
      expect(job.completionMs).toBeCloseTo(job.queuedMs + job.runMs, 3);
    }
    expect(outcome.utilisation).toBeGreaterThan(0);
    expect(outcome.utilisation).toBeLessThanOrEqual(1);
  });

  test("a job in one cluster, planned, takes as long as the trace says", () => {
    const [first] = outcomes;
    for (const job of first?.jobs.filter(({ clusters }) => clusters === 1) ?? [])
      expect(job.runMs / (jobs[job.number]?.durationMs ?? NaN)).toBeCloseTo(1, 9);
  });

  test("only MAST's gangs are cut, and never lie over two clusters", () => {
    const [first] = outcomes;
    const last = outcomes.at(-1);
    expect(first?.jobs.map(({ gpus }) => gpus)).toEqual(jobs.map(({ gpus }) => gpus));
    expect(last?.jobs.every(({ clusters, gpus }) => clusters === 1 && gpus <= 4)).toBe(true);
  });

  test("the same jobs under the same method have the same outcome", () => {
    expect(play(jobs, ours, setting)).toEqual(outcomes[0]);
  });

  test("a method that never places a job is told of, instead of waiting for ever", () => {
    const never: Method = { name: "never", policy: () => ({ work: 0 }), split: "plain" };
    expect(() => play(jobs, never, setting)).toThrow(/never places job 0/);
  });
});
