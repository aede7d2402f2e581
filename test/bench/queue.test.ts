/** @file `bench queue` at a small size: every bar and row is there, figures are shares and times, and one seed gives them again. */
import { describe, expect, test } from "vitest";
import type { BenchRequest } from "../../bench/bench.ts";
import { queueBench } from "../../bench/queue.ts";
import { paperWorkload } from "../../bench/queue/compare.ts";
import { allOrNothing } from "../../simulator/entrants/entrants.ts";
import { ENTRANT_NAMES } from "../../simulator/entrants/entrants.ts";
import { runQueue } from "../../bench/queue/run.ts";
import { starvedAfterMs } from "../../simulator/starved-after.ts";
import { benchRequest } from "../support/bench-request.ts";

const SIZES: Readonly<Record<string, number>> = {
  jobs: 100,
  seeds: 1,
  "decision-ms": 5,
  "live-delay-ms": 274,
  "calibration-rounds": 0,
};

const request = (only: readonly string[]): BenchRequest =>
  benchRequest({ size: (name) => SIZES[name] ?? NaN, chosen: () => only });

describe("bench queue, short", () => {
  test("compares every policy on the same arrivals, and has a figure for every bar", async () => {
    const { bars, tables = [] } = await runQueue(request(["policies", "degradation"]));
    expect(tables[0]?.rows.map(([name]) => name)).toEqual(ENTRANT_NAMES);
    expect(bars.map(({ id }) => id)).toEqual([
      "fifo-utilisation",
      "fifo-inference-p99",
      "bin-packing-utilisation",
      "bin-packing-inference-p99",
      "drf-utilisation",
      "drf-inference-p99",
      "utilisation",
      "utilisation-at-best-spread",
      "utilisation-above-bin-packing",
      "inference-p99",
      "inference-p99-live",
      "inference-p99-of-fifo",
      "inference-p99-of-bin-packing",
      "training-lost",
      "starved-tenants",
      "overhead",
      "degradation-queue-time",
      "degradation-utilisation",
      "degradation-completion",
    ]);
    const got = new Map(bars.map((bar) => [bar.id, bar.got ?? NaN]));
    expect(got.get("utilisation")).toBeGreaterThan(0);
    expect(got.get("utilisation")).toBeLessThanOrEqual(100);
    expect(got.get("starved-tenants")).toBe(0);
    expect(got.get("training-lost")).toBeLessThan(100);
  });

  test("has sizes for everything that it asks for", () => {
    const names = queueBench.options.map(({ name }) => name);
    expect(Object.keys(SIZES).filter((name) => !names.includes(name))).toEqual([]);
  });
});

test("without degradation the same jobs arrive, and none accepts less than it asks for", () => {
  const workload = paperWorkload(300, 1);
  const rigid = allOrNothing(workload);
  expect(workload.jobs.some(({ minGpus }) => minGpus !== undefined)).toBe(true);
  expect(rigid.jobs.every(({ minGpus }) => minGpus === undefined)).toBe(true);
  expect(rigid.jobs.map(({ id, submittedAtMs }) => [id, submittedAtMs])).toEqual(
    workload.jobs.map(({ id, submittedAtMs }) => [id, submittedAtMs]),
  );
});

test("the bound of starvation is finite, and longer than any run", () => {
  const workload = paperWorkload(300, 1);
  const boundMs = starvedAfterMs(workload);
  expect(Number.isFinite(boundMs)).toBe(true);
  expect(boundMs).toBeGreaterThan(Math.max(...workload.jobs.map(({ durationMs }) => durationMs)));
});
