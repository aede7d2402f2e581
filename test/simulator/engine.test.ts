/** @file What the simulator does, checked against schedules and accounts that were worked out by hand. */
import { describe, expect, test } from "vitest";
import { schedulerWith } from "../../simulator/scheduler.ts";
import { runSimulation, simulate } from "../../simulator/simulate.ts";
import { DECIDE_POLICIES } from "../../scheduling/cycle/decide.ts";
import { fifo } from "../../scheduling/cycle/policy-sets.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { FREE, job, optionsFor } from "./fixtures.ts";

describe("one job after the other", () => {
  test("a gang that fits starts at once, the next when it has ended", () => {
    const jobs = [
      job("a", { submittedAtMs: 0, gpus: 8, durationMs: 100 }),
      job("b", { submittedAtMs: 10, gpus: 4, durationMs: 50 }),
      job("c", { submittedAtMs: 20, gpus: 4, durationMs: 70 }),
    ];
    const { jobRows = [], endedAtMs } = runSimulation(optionsFor(jobs));
    expect(jobRows.map((row) => [row.id, row.firstGrantAtMs, row.endedAtMs, row.queuedMs])).toEqual(
      [
        ["a", 0, 100, 0],
        ["b", 100, 150, 90],
        ["c", 100, 170, 80],
      ],
    );
    expect(endedAtMs).toBe(170);
  });

  test("decision, delivery and start are charged where they happen", () => {
    const costs = { ...FREE, decisionMs: 5, deliveryMs: 3, startMs: 20, cycleIntervalMs: 8 };
    const jobs = [
      job("a", { submittedAtMs: 0, gpus: 4, durationMs: 100 }),
      // Comes while the first cycle decides: the next one begins 8 ms after the first.
      job("b", { submittedAtMs: 2, gpus: 4, durationMs: 100 }),
    ];
    const { jobRows = [] } = runSimulation(optionsFor(jobs, { costs }));
    expect(jobRows.map((row) => [row.firstGrantAtMs, row.endedAtMs])).toEqual([
      [5, 5 + 3 + 20 + 100],
      [13, 13 + 3 + 20 + 100],
    ]);
  });

  test("a gang over two racks runs at 0.34 of 0.94, and its work at the best spread is what is kept", () => {
    // Four hosts of 8 to a rack: the fifth host is in the second one; 7 of 8 GPUs are taken on each of both.
    const fleet = fleetOf([40]);
    const holes = [0, 1, 2, 3].map((at) =>
      job(`h${String(at)}`, { submittedAtMs: 0, gpus: at === 3 ? 7 : 8, durationMs: 1e6 }),
    );
    const jobs = [
      ...holes,
      job("last", { submittedAtMs: 1, gpus: 7, durationMs: 1e6 }),
      job("two", { submittedAtMs: 2, gpus: 2, durationMs: 340 }),
    ];
    const { jobRows = [] } = runSimulation(
      optionsFor(jobs, { fleet, openScheduler: schedulerWith(fifo) }),
    );
    const two = jobRows.find(({ id }) => id === "two");
    expect((two?.endedAtMs ?? 0) - (two?.firstGrantAtMs ?? 0)).toBeCloseTo(940, 0);
  });

  test("a single job that comes after weeks is sampled from its arrival on", () => {
    const jobs = [job("late", { submittedAtMs: 3e9, gpus: 8, durationMs: 1_000 })];
    const { samples, jobs: counts } = runSimulation(optionsFor(jobs));
    expect(counts.ended).toBe(1);
    expect(samples.length).toBeLessThan(200);
    expect(samples.filter(({ atMs }) => atMs < 3e9)).toEqual([]);
  });

  test("a smaller gang runs longer in proportion", () => {
    const jobs = [
      job("a", { submittedAtMs: 0, gpus: 4, durationMs: 1_000 }),
      job("b", { submittedAtMs: 1, gpus: 8, minGpus: 4, durationMs: 300, gangTimeoutMs: 100 }),
    ];
    const { jobRows = [], degradation } = runSimulation(optionsFor(jobs));
    const [, b] = jobRows;
    expect(b?.grantedGpus).toBe(4);
    expect(b?.firstGrantAtMs).toBe(101);
    expect(b?.endedAtMs).toBeCloseTo(701, 6);
    expect(degradation.grants).toBe(1);
  });
});

describe("failures", () => {
  test("a crash loses the work since the last checkpoint, and the job goes on from there", () => {
    const jobs = Array.from({ length: 40 }, (_, at) =>
      job(`j${String(at)}`, {
        submittedAtMs: at * 1_000,
        gpus: 8,
        durationMs: 10_000,
        checkpointIntervalMs: 1_000,
      }),
    );
    const failures = { jobMtbfGpuMs: 8 * 20_000 };
    const result = runSimulation(optionsFor(jobs, { failures, window: { fromShare: 0 } }));
    const crashes = (result.jobRows ?? []).reduce((sum, row) => sum + row.failures, 0);
    expect(result.failures.jobs).toBe(crashes);
    expect(crashes).toBeGreaterThan(5);
    expect(result.jobs.ended).toBe(40);
    // Each crash loses less than an interval; everything else is the jobs' own work, one after the other.
    expect(result.endedAtMs).toBeGreaterThan(400_000);
    expect(result.endedAtMs).toBeLessThan(400_000 + crashes * 1_000);
  });

  test("a host that fails takes its jobs with it, serves nobody until it is repaired, and counts as out of service", () => {
    const fleet = fleetOf([16]);
    const jobs = Array.from({ length: 60 }, (_, at) =>
      job(`j${String(at)}`, { submittedAtMs: at * 1_000, gpus: 4, durationMs: 9_000 }),
    );
    const failures = { hostMtbfMs: 60_000, repairMs: 5_000 };
    const result = runSimulation(optionsFor(jobs, { fleet, failures, window: { fromShare: 0 } }));
    expect(result.failures.hosts).toBeGreaterThan(0);
    expect(result.jobs.ended).toBe(60);
    expect(result.gpuSeconds.inService).toBeLessThan(16 * 59);
    expect(result.gpuSeconds.failureLoss).toBeGreaterThan(0);
  });
});

test("a job that never fits is left waiting, and the simulation ends", () => {
  const jobs = [
    job("a", { submittedAtMs: 0, gpus: 8, durationMs: 100 }),
    job("big", { submittedAtMs: 10, gpus: 9, durationMs: 50 }),
    job("b", { submittedAtMs: 20, gpus: 8, durationMs: 100 }),
  ];
  const { jobs: counts, jobRows = [] } = runSimulation(optionsFor(jobs));
  expect(counts).toEqual({ submitted: 3, ended: 2, running: 0, waiting: 1 });
  expect(jobRows[1]?.firstGrantAtMs).toBeNull();
});

test("progress is told along the way", () => {
  const jobs = Array.from({ length: 2_000 }, (_, at) =>
    job(`j${String(at)}`, { submittedAtMs: at * 10, gpus: 1, durationMs: 20 }),
  );
  const words = [...simulate(optionsFor(jobs, { openScheduler: schedulerWith(DECIDE_POLICIES) }))];
  expect(words.length).toBeGreaterThan(1);
  const ended = words.map((word) => word.ended);
  expect(ended).toEqual([...ended].sort((a, b) => a - b));
});
