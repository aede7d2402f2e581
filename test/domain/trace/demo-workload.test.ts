/** @file The demo's 120 jobs: which rows, how long, and that a fleet of 96 GPUs is done with them in a minute. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEMO_DEFAULTS, demoJobs, type DemoJob } from "../../../domain/trace/demo-workload.ts";
import { readPhillyTrace, type PhillyRow } from "../../../domain/trace/parse-philly.ts";
import { dataText } from "../samples.ts";

const trace = readPhillyTrace(dataText("traces/philly-2017-rows-50000-50999.csv"), {
  source: "philly.csv",
  firstRow: 50_000,
});
const rows = trace.kind === "parsed" ? trace.rows : [];

describe("the demo's jobs", () => {
  const demo = demoJobs(rows);

  test("are all 73 gangs of 2 to 24 GPUs and 47 one-GPU jobs, arriving over 35 s", () => {
    expect(demo.jobs).toHaveLength(120);
    expect(demo).toMatchObject({
      divisor: 2220,
      gangCount: 73,
      cappedCount: 25,
      flooredCount: 73,
      lastArrivalMs: 35_015,
    });
    expect(demo.gpuSeconds).toBeCloseTo(2888.941, 3);
    const gangs = rows.filter(({ gpus }) => gpus > 1 && gpus <= 24).map(({ row }) => row);
    const chosen = demo.jobs.filter(({ gpus }) => gpus > 1).map(({ row }) => row);
    expect(chosen).toEqual(gangs);
  });

  test("arrive in the trace's order, with its GPU counts, under one divisor", () => {
    const byRow = new Map(rows.map((row) => [row.row, row]));
    const startMs = byRow.get(demo.jobs[0]?.row ?? 0)?.submittedMs ?? 0;
    for (const [at, job] of demo.jobs.entries()) {
      const row = byRow.get(job.row);
      const divided = (row?.durationMs ?? 0) / demo.divisor;
      expect(job.index).toBe(at);
      expect(job.gpus).toBe(row?.gpus);
      expect(job.arrivalMs).toBe(Math.round(((row?.submittedMs ?? 0) - startMs) / demo.divisor));
      expect(job.durationMs).toBe(Math.round(Math.min(15_000, Math.max(200, divided))));
      expect(job.isCapped).toBe(divided > 15_000);
      expect(job.row).toBeGreaterThan(demo.jobs[at - 1]?.row ?? -1);
    }
  });

  test("one-GPU jobs are the nearest to a gang by row, ties to the earlier row", () => {
    const gangRows = demo.jobs.filter(({ gpus }) => gpus > 1).map(({ row }) => row);
    const distance = (row: number): number =>
      Math.min(...gangRows.map((gang) => Math.abs(gang - row)));
    const want = rows
      .filter(({ gpus }) => gpus === 1)
      .map(({ row }) => ({ row, far: distance(row) }))
      .sort((a, b) => a.far - b.far || a.row - b.row)
      .slice(0, 47)
      .map(({ row }) => row)
      .sort((a, b) => a - b);
    expect(demo.jobs.filter(({ gpus }) => gpus === 1).map(({ row }) => row)).toEqual(want);
  });

  test.each([
    { overheadMs: 0, wantMs: 50_015 },
    { overheadMs: 500, wantMs: 50_515 },
    { overheadMs: 2_000, wantMs: 53_579 },
  ])(
    "end after $wantMs ms first come, first served, if each start and end costs $overheadMs ms",
    ({ overheadMs, wantMs }) => {
      expect(firstComeFirstServedMs(demo.jobs, [32, 64], overheadMs)).toBe(wantMs);
    },
  );
});

/** When the last job ends: jobs in order, each on the first cluster that has its GPUs free, none overtakes. */
function firstComeFirstServedMs(
  jobs: readonly DemoJob[],
  clusterGpus: readonly number[],
  overheadMs: number,
): number {
  const free = [...clusterGpus];
  let running: { readonly endMs: number; readonly cluster: number; readonly gpus: number }[] = [];
  let nowMs = 0;
  let lastMs = 0;
  for (const job of jobs) {
    nowMs = Math.max(nowMs, job.arrivalMs);
    for (;;) {
      for (const done of running.filter(({ endMs }) => endMs <= nowMs)) {
        free[done.cluster] = (free[done.cluster] ?? 0) + done.gpus;
      }
      running = running.filter(({ endMs }) => endMs > nowMs);
      const cluster = free.findIndex((gpus) => gpus >= job.gpus);
      if (cluster !== -1) {
        free[cluster] = (free[cluster] ?? 0) - job.gpus;
        const endMs = nowMs + job.durationMs + overheadMs;
        running.push({ endMs, cluster, gpus: job.gpus });
        lastMs = Math.max(lastMs, endMs);
        break;
      }
      nowMs = Math.min(...running.map(({ endMs }) => endMs));
    }
  }
  return lastMs;
}

test("any rows give at most the jobs asked for, in order, within floor and cap", () => {
  const anyRow: fc.Arbitrary<Omit<PhillyRow, "row">> = fc.record({
    submittedMs: fc.nat(1e9),
    durationMs: fc.nat(1e9),
    gpus: fc.constantFrom(1, 1, 1, 2, 8, 24, 32),
    virtualCluster: fc.constant("a"),
  });
  fc.assert(
    fc.property(fc.array(anyRow), fc.integer({ min: 1, max: 20 }), (any, jobCount) => {
      const numbered = any.map((row, index) => ({ ...row, row: 50_000 + index }));
      const demo = demoJobs(numbered, { jobCount, divisor: 1000 });
      expect(demo.jobs.length).toBeLessThanOrEqual(jobCount);
      expect(new Set(demo.jobs.map(({ row }) => row)).size).toBe(demo.jobs.length);
      for (const [at, job] of demo.jobs.entries()) {
        expect(job.arrivalMs).toBeGreaterThanOrEqual(demo.jobs[at - 1]?.arrivalMs ?? 0);
        expect(job.durationMs).toBeGreaterThanOrEqual(DEMO_DEFAULTS.minDurationMs);
        expect(job.durationMs).toBeLessThanOrEqual(DEMO_DEFAULTS.maxDurationMs);
        expect(job.gpus).toBeLessThanOrEqual(24);
      }
    }),
  );
});

test("rows outside the window are not looked at", () => {
  const row = { submittedMs: 0, durationMs: 1, gpus: 2, virtualCluster: "a" };
  const demo = demoJobs(
    [49_999, 50_000, 50_999, 51_000].map((number) => ({ ...row, row: number })),
  );
  expect(demo.jobs.map((job) => job.row)).toEqual([50_000, 50_999]);
});
