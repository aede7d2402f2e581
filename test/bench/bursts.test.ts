/** @file `bench queue --only bursts`: the workload is the one that was frozen, and a short run has a figure for every bar. */
import { describe, expect, test } from "vitest";
import {
  BURST_CASES,
  burstWorkload,
  FLEET_GPUS,
  LAST_ARRIVAL_MS,
  quietRate,
} from "../../bench/queue/burst-workload.ts";
import { runQueue } from "../../bench/queue/run.ts";
import { gpuSecondsOf } from "../../simulator/workload.ts";
import { benchRequest } from "../support/bench-request.ts";

const SEEDS = Array.from({ length: 20 }, (_, at) => 1_000 + at);

describe("the workload", () => {
  test.each(BURST_CASES)("inference holds $inference of the fleet on average", (its) => {
    const hours = LAST_ARRIVAL_MS / 1_000;
    const shares = SEEDS.map((seed) => {
      const jobs = burstWorkload(its, seed).jobs.filter((job) => job.class === "inference");
      return gpuSecondsOf(jobs) / (FLEET_GPUS * hours);
    });
    const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
    expect(mean / its.inference).toBeGreaterThan(0.95);
    expect(mean / its.inference).toBeLessThan(1.05);
  });

  test("arrivals come at three times the quiet rate in bursts, a tenth of the time", () => {
    const its = BURST_CASES[1];
    let bursts = 0;
    let seconds = 0;
    for (const seed of SEEDS) {
      const { jobs } = burstWorkload(its, seed);
      const counts = new Array<number>(Math.ceil(LAST_ARRIVAL_MS / 10_000)).fill(0);
      for (const { class: jobClass, submittedAtMs } of jobs) {
        const at = Math.floor(submittedAtMs / 10_000);
        if (jobClass === "inference") counts[at] = (counts[at] ?? 0) + 1;
      }
      seconds += counts.length;
      // Halfway between the two rates, which lie many deviations apart in ten seconds.
      bursts += counts.filter((count) => count > 20 * quietRate(its)).length;
    }
    expect(bursts / seconds).toBeGreaterThan(0.07);
    expect(bursts / seconds).toBeLessThan(0.13);
  });

  test("training is enough for all that inference leaves, from the first moment to the last", () => {
    const [its] = BURST_CASES;
    const training = burstWorkload(its, 1).jobs.filter((job) => job.class === "training");
    const atOnce = training.filter(({ submittedAtMs }) => submittedAtMs === 0);
    expect(atOnce.reduce((sum, { gpus }) => sum + gpus, 0)).toBeGreaterThan(2 * FLEET_GPUS);
    expect(gpuSecondsOf(training)).toBeGreaterThan(1.5 * FLEET_GPUS * (LAST_ARRIVAL_MS / 1_000));
    expect(training.every(({ preemption }) => preemption?.isPreemptible)).toBe(true);
  });
});

const SIZES: Readonly<Record<string, number>> = {
  "burst-seeds": 1,
  "burst-minutes": 1,
  "burst-warm-up": 1,
  "calibration-rounds": 0,
};
const CHOSEN: Readonly<Record<string, readonly string[]>> = {
  only: ["bursts"],
  shares: ["10"],
  rivals: ["partition"],
};
const REQUEST = benchRequest({
  size: (name) => SIZES[name] ?? NaN,
  chosen: (name) => CHOSEN[name] ?? [],
});

test("a short run has a figure for every bar, and a row for each policy", async () => {
  const { bars, tables = [] } = await runQueue(REQUEST);
  expect(bars.map(({ id }) => id)).toEqual([
    "bursts-10-p99",
    "bursts-10-kept-free",
    "bursts-10-longest",
    "bursts-10-best-rival",
  ]);
  expect(bars.every(({ got }) => got !== null && got > 0)).toBe(true);
  expect(tables.map(({ rows }) => rows.map(([name]) => name))).toEqual([["tawfq", "partition"]]);
});
