/** @file The generator of the paper's mix: it offers what it is told to, within the paper's ranges, the same from one seed. */
import { describe, expect, test } from "vitest";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import { DAY_MS, drawPaperMix, type ClassMix, type PaperMix } from "../../simulator/paper-mix.ts";
import { PAPER_SITES, paperFleet } from "../../simulator/paper-fleet.ts";
import { gpuSecondsOf } from "../../simulator/workload.ts";

const CLASS: ClassMix = {
  loadShare: 0.1,
  sizes: [
    [1, 3],
    [8, 1],
  ],
  medianMs: 5_000,
  sigma: 2.5,
  leastMs: 1,
  mostMs: 1_000_000,
  minShare: 1,
  burstShare: 0.1,
  burstFactor: 5,
  burstSlotMs: 2_000,
};
const MIX: PaperMix = {
  offeredLoad: 0.95,
  gpus: 1_798,
  jobs: 8_000,
  classes: {
    inference: CLASS,
    interactive: CLASS,
    training: {
      ...CLASS,
      loadShare: 0.8,
      minShare: 0.5,
      sizes: [
        [16, 3],
        [64, 1],
        [1_000, 0.01],
      ],
    },
  },
  tenants: 5,
  tenantDecay: 0.7,
  diurnal: 0.5,
  dayMs: DAY_MS,
  mostOverestimate: 3,
  spanningFromGpus: 512,
};

test("the fleet has the paper's 1,798 GPUs in three sites", () => {
  const { clusters } = paperFleet();
  const counts = clusters.map(({ hosts }) =>
    hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0),
  );
  expect(counts).toEqual(PAPER_SITES);
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(1_798);
});

describe("a drawn workload", () => {
  const workload = drawPaperMix(MIX, 1);
  const { jobs } = workload;

  test("is in order of arrival, with unique ids, sizes and durations in range", () => {
    expect(new Set(jobs.map(({ id }) => id)).size).toBe(jobs.length);
    expect(jobs.every((job, at) => (jobs[at - 1]?.submittedAtMs ?? 0) <= job.submittedAtMs)).toBe(
      true,
    );
    expect(jobs.every(({ gpus }) => gpus >= 1 && gpus <= 1_000)).toBe(true);
    expect(jobs.every(({ durationMs }) => durationMs >= 1 && durationMs <= 1_000_000)).toBe(true);
    expect(jobs.every(({ durationMs, estimateMs = 0 }) => estimateMs >= durationMs)).toBe(true);
  });

  test("offers the load that was asked for", () => {
    const spanMs = jobs.at(-1)?.submittedAtMs ?? 0;
    expect((gpuSecondsOf(jobs) * 1_000) / (1_798 * spanMs)).toBeCloseTo(0.95, 2);
  });

  test("has about the asked number of jobs, and the classes about their shares of the load", () => {
    expect(Math.abs(jobs.length - 8_000)).toBeLessThan(5);
    for (const name of JOB_CLASSES) {
      const share = gpuSecondsOf(jobs.filter((job) => job.class === name)) / gpuSecondsOf(jobs);
      expect(Math.abs(share - MIX.classes[name].loadShare)).toBeLessThan(0.1);
    }
  });

  test("is the same from the same seed, and another one from another", () => {
    expect(drawPaperMix(MIX, 1)).toEqual(workload);
    expect(drawPaperMix(MIX, 2).jobs[0]).not.toEqual(jobs[0]);
  });

  test("gangs that may shrink accept whole hosts, and those larger than a site may span sites", () => {
    for (const { gpus, minGpus = gpus, constraints } of jobs) {
      expect(gpus <= 8 ? minGpus === gpus : minGpus % 8 === 0 || minGpus === gpus).toBe(true);
      if (gpus > 512) expect(constraints?.maxClusters).toBe(3);
    }
  });
});

test("elastic gangs shrink and grow, and all are protected for as long as the mix says", () => {
  const training = { ...MIX.classes.training, isElastic: true, protectedMs: 7_000 } as const;
  const { jobs } = drawPaperMix({ ...MIX, jobs: 500, classes: { ...MIX.classes, training } }, 1);
  for (const { class: jobClass, gpus, minGpus = gpus, mayGrow, preemption } of jobs) {
    if (jobClass !== "training") expect([mayGrow, preemption]).toEqual([undefined, undefined]);
    else {
      expect(mayGrow === true).toBe(minGpus < gpus);
      expect(preemption).toEqual({
        isPreemptible: true,
        mayShrink: minGpus < gpus,
        minRuntimeMs: 7_000,
      });
    }
  }
});
