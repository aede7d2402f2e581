/** @file The paper's characterisation from the emulator: which winner each size has (table 1), AUTO's gaps (table 2), noise (§5.2), and how far off a log of nccl-tests it is. */

import { readFileSync } from "node:fs";
import { parseNcclTests } from "../../domain/bandwidth/parse-nccl-tests.ts";
import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean, quantile } from "../statistics.ts";
import { autoGap, bestArm, emulatedCluster } from "../../simulator/collectives/emulated-cluster.ts";
import {
  fabricOf,
  heldOutErrors,
  logPoints,
} from "../../simulator/collectives/nccl-calibration.ts";
import {
  MIB,
  PAPER_1X8,
  PAPER_2X4,
  PAPER_2X4_PROFILED,
  PAPER_4X2,
} from "../../simulator/collectives/paper-clusters.ts";
import { jobOf } from "./scenarios.ts";

interface SizeFound {
  readonly bytes: number;
  readonly sequential: string;
  readonly overlap: string;
  readonly gapPercent: number;
}

function winnersBySize(): readonly SizeFound[] {
  const cluster = emulatedCluster(PAPER_1X8);
  const sizes = PAPER_1X8.measured.filter(({ hasOverlap }) => hasOverlap).map((cell) => cell.bytes);
  return sizes.map((bytes) => ({
    bytes,
    sequential: bestArm(cluster, { bytes, hasOverlap: false }),
    overlap: bestArm(cluster, { bytes, hasOverlap: true }),
    gapPercent: 100 * autoGap(cluster, { bytes, hasOverlap: true }),
  }));
}

export function characterise(): { readonly bars: readonly Bar[]; readonly table: BenchTable } {
  const winners = winnersBySize();
  const gap = (bytes: number, hasOverlap: boolean): number =>
    100 * autoGap(emulatedCluster(PAPER_2X4_PROFILED), { bytes, hasOverlap });
  const flips = winners.filter(({ sequential, overlap }) => sequential !== overlap).length;
  const bars = [
    barOf({ id: "flips", unit: "of 9 sizes", target: exactly(6), got: flips, paper: 6 }),
    near("gap-64MB-sequential", gap(64 * MIB, false), 57.2),
    near("gap-64MB-overlap", gap(64 * MIB, true), 45.6),
  ].flat();
  const rows = winners.map(({ bytes, sequential, overlap, gapPercent }) => [
    bytes < MIB ? `${String(bytes / 1024)} KB` : `${String(bytes / MIB)} MB`,
    sequential,
    overlap,
    `${gapPercent.toFixed(1)} %`,
    sequential === overlap ? "" : "flip",
  ]);
  const columns = ["SIZE", "SEQUENTIAL", "OVERLAP", "AUTO'S GAP", "FLIP"];
  return { bars, table: { title: "One node of 8 A100: the fastest configuration", columns, rows } };
}

/** Within 5 %, both ways. */
const near = (id: string, got: number, paper: number): readonly Bar[] => [
  barOf({ id, unit: "%", target: atLeast(0.95 * paper), got, paper }),
  barOf({ id: `${id}-not-above`, unit: "%", target: atMost(1.05 * paper), got, paper }),
];

const NOISE = [
  { id: "4x2-256MB", spec: PAPER_4X2, bytes: 256 * MIB, arm: "tree/simple", iqr: -80.3, std: -76 },
  { id: "2x4-64MB", spec: PAPER_2X4, bytes: 64 * MIB, arm: "tree/simple", iqr: -13.7, std: -19.4 },
  { id: "2x4-256MB", spec: PAPER_2X4, bytes: 256 * MIB, arm: "auto", iqr: -15, std: undefined },
] as const;

/** §5.2: AUTO's 240 iterations beside the 200 of the arm that the bandit took; the middle one of the seeds. */
export function noiseBars(seeds: readonly number[]): readonly Bar[] {
  return NOISE.flatMap(({ id, spec, bytes, arm, iqr, std }) => {
    const jobs = seeds.map((seed) => {
      const draws = jobOf({ spec, bytes }, { seed, iterations: 240, noiseScale: 1 });
      const auto = Array.from({ length: 240 }, (_, at) => draws.ms("auto", at));
      const own = Array.from({ length: 200 }, (_, at) => draws.ms(arm, at + 40));
      return { auto, own };
    });
    const change = (figure: (values: readonly number[]) => number): number => {
      const middle = (side: "auto" | "own"): number =>
        quantile(
          jobs.map((job) => figure(job[side])),
          0.5,
        );
      return 100 * (middle("own") / middle("auto") - 1);
    };
    const range = (values: readonly number[]): number =>
      quantile(values, 0.75) - quantile(values, 0.25);
    return [
      barOf({ id: `noise-${id}-iqr`, unit: "%", target: REPORTED, got: change(range), paper: iqr }),
      ...(std === undefined
        ? []
        : [
            barOf({
              id: `noise-${id}-std`,
              unit: "%",
              target: REPORTED,
              got: change(deviation),
              paper: std,
            }),
          ]),
    ];
  });
}

function deviation(values: readonly number[]): number {
  const middle = mean(values);
  return Math.sqrt(mean(values.map((value) => (value - middle) ** 2)));
}

/** The emulator's error at sizes of a log that it was not calibrated to. */
export function logBars(file: string): readonly Bar[] {
  const parsed = parseNcclTests(readFileSync(file, "utf8"), { source: file });
  if (parsed.kind === "refused")
    throw new Error(`${file} is no log of nccl-tests: ${parsed.problems[0]?.message ?? "unknown"}`);
  const run = parsed.runs[0];
  // Logs that print no program are taken for what the option asks: an all-reduce.
  const known = run && { ...run, op: run.op === "unknown" ? "all_reduce" : run.op };
  const points = known === undefined ? [] : logPoints(known);
  const fabric = known && fabricOf(known, points);
  if (fabric === undefined || points.length < 5)
    throw new Error(`${file} has no all-reduce of five sizes from 32 KB on with its ranks`);
  const errors = heldOutErrors(fabric, points).map((error) => 100 * Math.abs(error));
  return [
    barOf({ id: "log-held-out-mean", unit: "%", target: REPORTED, got: mean(errors) }),
    barOf({ id: "log-held-out-worst", unit: "%", target: REPORTED, got: Math.max(...errors) }),
  ];
}
