import { describe, expect, it } from "vitest";
import { drawsOf } from "../../../simulator/collectives/draws.ts";
import { EMULATED_ARMS, type EmulatedArm } from "../../../simulator/collectives/emulated-arms.ts";
import {
  autoGap,
  bestArm,
  emulatedCluster,
  physicalMs,
  type ClusterSpec,
} from "../../../simulator/collectives/emulated-cluster.ts";
import {
  MIB,
  PAPER_1X8,
  PAPER_2X4,
  PAPER_2X4_MOVED,
  PAPER_2X4_PROFILED,
  PAPER_4X2,
} from "../../../simulator/collectives/paper-clusters.ts";

const KIB = 1024;
const SEEDS = 50;

const quantile = (values: readonly number[], share: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))] ?? NaN;
};
const median = (values: readonly number[]): number => quantile(values, 0.5);
const iqr = (values: readonly number[]): number => quantile(values, 0.75) - quantile(values, 0.25);
const deviation = (values: readonly number[]): number => {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(
    values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1),
  );
};

interface Protocol {
  readonly arm: EmulatedArm;
  readonly bytes: number;
  readonly hasOverlap: boolean;
  readonly warmUp: number;
  readonly count: number;
}

/** The middle one of many jobs' figures: what one job would show, but for its luck. */
function shown(
  spec: ClusterSpec,
  { arm, bytes, hasOverlap, warmUp, count }: Protocol,
  figure: (values: readonly number[]) => number,
): number {
  const cluster = emulatedCluster(spec);
  const figures = Array.from({ length: SEEDS }, (_, seed) => {
    const iterations = warmUp + count;
    const phases = [{ fromIteration: 0, cluster }] as const;
    const draws = drawsOf({ phases, bytes, hasOverlap, iterations, noiseScale: 1, seed });
    return figure(Array.from({ length: count }, (_u, at) => draws.ms(arm, warmUp + at)));
  });
  return median(figures);
}

/** Tables 1 and 2 as they are printed: 10 iterations to warm up, the median of 50. */
const TABLES: readonly {
  readonly spec: ClusterSpec;
  readonly hasOverlap: boolean;
  readonly rows: readonly (readonly [number, EmulatedArm, number, number])[];
}[] = [
  {
    spec: PAPER_1X8,
    hasOverlap: false,
    rows: [
      [32 * KIB, "tree/ll128", 8.33, 1.5],
      [64 * KIB, "ring/ll128", 8.44, 0],
      [256 * KIB, "ring/simple", 8.35, 3],
      [MIB, "tree/ll128", 8.56, 0.3],
      [2 * MIB, "ring/ll128", 8.45, 1.7],
      [4 * MIB, "tree/simple", 8.5, 0.1],
      [16 * MIB, "ring/simple", 8.5, 3.1],
      [64 * MIB, "ring/simple", 8.95, 2.3],
      [256 * MIB, "auto", 10.6, 0],
    ],
  },
  {
    spec: PAPER_1X8,
    hasOverlap: true,
    rows: [
      [32 * KIB, "tree/simple", 8.32, 0.1],
      [64 * KIB, "auto", 8.12, 0],
      [256 * KIB, "auto", 8.36, 0],
      [MIB, "tree/ll128", 8.28, 1.3],
      [2 * MIB, "ring/simple", 8.6, 3.3],
      [4 * MIB, "ring/simple", 8.46, 2.1],
      [16 * MIB, "ring/simple", 8.56, 3],
      [64 * MIB, "ring/simple", 9.23, 0.6],
      [256 * MIB, "ring/simple", 10.6, 0.4],
    ],
  },
  {
    spec: PAPER_2X4_PROFILED,
    hasOverlap: false,
    rows: [
      [256 * KIB, "tree/simple", 9.5, 9.1],
      [MIB, "tree/simple", 11.3, 13.2],
      [4 * MIB, "auto", 15.5, 0],
      [16 * MIB, "tree/simple", 34.2, 15.9],
      [64 * MIB, "tree/simple", 116.5, 57.2],
      [256 * MIB, "tree/simple", 675.5, 0.5],
    ],
  },
  {
    spec: PAPER_2X4_PROFILED,
    hasOverlap: true,
    rows: [
      [256 * KIB, "tree/simple", 8.8, 10.9],
      [MIB, "tree/simple", 10.4, 13.5],
      [4 * MIB, "tree/simple", 14.1, 6.4],
      [16 * MIB, "tree/simple", 32.5, 11.5],
      [64 * MIB, "tree/simple", 148.6, 45.6],
      [256 * MIB, "tree/ll128", 678.1, 0],
    ],
  },
];

describe.each(TABLES)("tables 1 and 2: $spec.name, overlap $hasOverlap", ({ spec, ...table }) => {
  const { hasOverlap } = table;

  it.each(table.rows)("%i bytes: %s in %f ms, AUTO %f %% above", (bytes, arm, ms, gap) => {
    const cluster = emulatedCluster(spec);
    expect(bestArm(cluster, { bytes, hasOverlap })).toBe(arm);
    expect(100 * autoGap(cluster, { bytes, hasOverlap })).toBeCloseTo(gap, 1);
    const protocol = { bytes, hasOverlap, warmUp: 10, count: 50 };
    const best = shown(spec, { ...protocol, arm }, median);
    const auto = shown(spec, { ...protocol, arm: "auto" }, median);
    expect(Math.abs(best / ms - 1)).toBeLessThan(0.05);
    expect(Math.abs(auto / (ms * (1 + gap / 100)) - 1)).toBeLessThan(0.05);
  });
});

it("six of nine winners on one node change under overlap (§3.1)", () => {
  const cluster = emulatedCluster(PAPER_1X8);
  const sizes = PAPER_1X8.measured.filter(({ hasOverlap }) => hasOverlap).map((m) => m.bytes);
  const flips = sizes.filter(
    (bytes) =>
      bestArm(cluster, { bytes, hasOverlap: true }) !==
      bestArm(cluster, { bytes, hasOverlap: false }),
  );
  expect(flips).toHaveLength(6);
});

it("Ring+Simple takes 337 ms at 64 MB on the profiled 2×4, 2.9 times as long as Tree+Simple", () => {
  const cluster = emulatedCluster(PAPER_2X4_PROFILED);
  const ms = (arm: EmulatedArm): number =>
    cluster.medianMs({ arm, bytes: 64 * MIB, hasOverlap: false });
  expect(ms("ring/simple")).toBeCloseTo(337, 0);
  expect(ms("ring/simple") / ms("tree/simple")).toBeCloseTo(2.9, 1);
});

describe("table 3: medians of 240 iterations of AUTO, and of 200 of the bandit's arm", () => {
  it.each([
    { spec: PAPER_4X2, mib: 64, arm: "tree/simple", auto: 81.8, bandit: 60.9, improvement: 25.5 },
    {
      spec: PAPER_4X2,
      mib: 256,
      arm: "tree/simple",
      auto: 251.7,
      bandit: 194.6,
      improvement: 22.7,
    },
    { spec: PAPER_2X4, mib: 64, arm: "tree/simple", auto: 287.3, bandit: 166.6, improvement: 42 },
    { spec: PAPER_2X4, mib: 256, arm: "auto", auto: 749.1, bandit: 749.2, improvement: 0 },
  ] as const)("$spec.name at $mib MB", ({ spec, mib, arm, auto, bandit, improvement }) => {
    const bytes = mib * MIB;
    const run = { bytes, hasOverlap: true };
    const autoMs = shown(spec, { ...run, arm: "auto", warmUp: 0, count: 240 }, median);
    const banditMs = shown(spec, { ...run, arm, warmUp: 40, count: 200 }, median);
    expect(Math.abs(autoMs / auto - 1)).toBeLessThan(0.05);
    expect(Math.abs(banditMs / bandit - 1)).toBeLessThan(0.05);
    const gained = 100 * (1 - banditMs / autoMs);
    expect(Math.abs(gained - improvement)).toBeLessThan(Math.max(1, 0.05 * improvement));
  });
});

describe("the noise of §5.2, AUTO's 240 iterations beside the exploit phase's 200", () => {
  const change = (
    spec: ClusterSpec,
    { mib, arm }: { mib: number; arm: EmulatedArm },
    figure: (values: readonly number[]) => number,
  ): number => {
    const run = { bytes: mib * MIB, hasOverlap: true };
    const before = shown(spec, { ...run, arm: "auto", warmUp: 0, count: 240 }, figure);
    return 100 * (shown(spec, { ...run, arm, warmUp: 40, count: 200 }, figure) / before - 1);
  };
  const tree = "tree/simple" as const;

  it.each([
    { what: "IQR", spec: PAPER_4X2, mib: 256, arm: tree, figure: iqr, want: -80.3 },
    { what: "std", spec: PAPER_4X2, mib: 256, arm: tree, figure: deviation, want: -76 },
    { what: "IQR", spec: PAPER_2X4, mib: 64, arm: tree, figure: iqr, want: -13.7 },
    { what: "std", spec: PAPER_2X4, mib: 64, arm: tree, figure: deviation, want: -19.4 },
    { what: "IQR", spec: PAPER_2X4, mib: 256, arm: "auto", figure: iqr, want: -15 },
  ] as const)("$what on $spec.name at $mib MB: $want %", ({ spec, figure, want, mib, arm }) => {
    expect(Math.abs(change(spec, { mib, arm }, figure) - want)).toBeLessThan(5);
  });

  it("has 298 and 71 ms of standard deviation on 4×2 at 256 MB", () => {
    const run = { bytes: 256 * MIB, hasOverlap: true };
    const auto = shown(PAPER_4X2, { ...run, arm: "auto", warmUp: 0, count: 240 }, deviation);
    const own = shown(PAPER_4X2, { ...run, arm: tree, warmUp: 40, count: 200 }, deviation);
    expect(Math.abs(auto / 298 - 1)).toBeLessThan(0.1);
    expect(Math.abs(own / 71 - 1)).toBeLessThan(0.15);
  });
});

it("a policy that is profiled before the job is moved is 110 % slower than AUTO after (§4.1)", () => {
  const profiled = emulatedCluster(PAPER_2X4_PROFILED);
  const moved = emulatedCluster(PAPER_2X4_MOVED);
  const at = { bytes: 64 * MIB, hasOverlap: true };
  const stale = bestArm(profiled, at);
  const regression = moved.medianMs({ ...at, arm: stale }) / moved.medianMs({ ...at, arm: "auto" });
  expect(regression - 1).toBeCloseTo(1.1, 2);
});

describe("physics", () => {
  it("is within a quarter of every winner of the tables by itself, but for the 2×4 at 64 and 256 MB", () => {
    for (const spec of [PAPER_1X8, PAPER_2X4_PROFILED, PAPER_2X4, PAPER_4X2])
      for (const { best, bestMs, bytes, hasOverlap } of spec.measured) {
        if (spec === PAPER_2X4_PROFILED && bytes >= 64 * MIB) continue;
        const ms = physicalMs(spec, { arm: best, bytes, hasOverlap });
        expect(Math.abs(ms / bestMs - 1)).toBeLessThan(0.25);
      }
  });

  it("never makes a larger message faster", () => {
    for (const spec of [PAPER_1X8, PAPER_2X4, PAPER_4X2])
      for (const arm of EMULATED_ARMS)
        for (let bytes = KIB; bytes < 512 * MIB; bytes *= 2)
          expect(
            physicalMs(spec, { arm, bytes: 2 * bytes, hasOverlap: false }),
          ).toBeGreaterThanOrEqual(physicalMs(spec, { arm, bytes, hasOverlap: false }));
  });
});
