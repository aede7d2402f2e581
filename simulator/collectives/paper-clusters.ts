/**
 * @file The clusters of the bandit paper, from its tables 1, 2 and 3 and its §4.1 and §5.2: what was measured, on which links, with which noise.
 *
 * The 2×4 of table 2 and the 2×4 of table 3 are two clusters (64 MB under overlap: AUTO 216 ms and 287 ms). A cell is the best arm, its
 * milliseconds and AUTO's; table 2 gives AUTO as a gap. Link figures are fitted to the cells by hand (NVLink to nccl-tests of eight A100),
 * noise to §5.2 and, for jitter, to what two runs of the same nccl-tests differ by (about 3 % an iteration over TCP, 1 % inside a host).
 */

import type { EmulatedArm } from "./emulated-arms.ts";
import type { ClusterSpec, Measured } from "./emulated-cluster.ts";
import type { NoiseShape } from "./noise.ts";

const KIB = 1024;
export const MIB = 1024 * KIB;

type Row = readonly [bytes: number, best: EmulatedArm, bestMs: number, gapPercent: number];

const cells = (hasOverlap: boolean, rows: readonly Row[]): readonly Measured[] =>
  rows.map(([bytes, best, bestMs, gapPercent]) => ({
    bytes,
    hasOverlap,
    best,
    bestMs,
    autoMs: bestMs * (1 + (best === "auto" ? 0 : Math.max(gapPercent, ROUNDED_PERCENT)) / 100),
  }));

/** A gap that is printed as 0.0 although another arm won. */
const ROUNDED_PERCENT = 0.04;

const NVLINK = { hopUs: 1.9, gbs: 226 };
const LAUNCH_US = 20;
const OVERLAP = { hiddenMs: 0.8, contention: 0.015 };
/** TCP waits at least 200 ms before it sends again; six seconds is where a doubled timeout gives way to a new path. */
const STALL = { leastMs: 200, mostMs: 6_000, tailIndex: 1.6 };
const SETTLING = { excess: 0.118, iterations: 20 };

const inOneHost: NoiseShape = {
  jitter: { auto: 0.004, forced: 0.004 },
  stall: { ...STALL, perGiB: { auto: 0, forced: 0 } },
  settling: { excess: 0, iterations: 1 },
};

/** Table 1. */
export const PAPER_1X8: ClusterSpec = {
  name: "1x8",
  fabric: {
    nodes: 1,
    gpusPerNode: 8,
    launchUs: LAUNCH_US,
    nvlink: NVLINK,
    network: { hopUs: 0, gbs: 1, ringLoss: 1 },
  },
  floorMs: 8.25,
  overlap: { hiddenMs: 0.05, contention: 0.015 },
  measured: [
    ...cells(false, [
      [32 * KIB, "tree/ll128", 8.33, 1.5],
      [64 * KIB, "ring/ll128", 8.44, 0],
      [256 * KIB, "ring/simple", 8.35, 3],
      [MIB, "tree/ll128", 8.56, 0.3],
      [2 * MIB, "ring/ll128", 8.45, 1.7],
      [4 * MIB, "tree/simple", 8.5, 0.1],
      [16 * MIB, "ring/simple", 8.5, 3.1],
      [64 * MIB, "ring/simple", 8.95, 2.3],
      [256 * MIB, "auto", 10.6, 0],
    ]),
    ...cells(true, [
      [32 * KIB, "tree/simple", 8.32, 0.1],
      [64 * KIB, "auto", 8.12, 0],
      [256 * KIB, "auto", 8.36, 0],
      [MIB, "tree/ll128", 8.28, 1.3],
      [2 * MIB, "ring/simple", 8.6, 3.3],
      [4 * MIB, "ring/simple", 8.46, 2.1],
      [16 * MIB, "ring/simple", 8.56, 3],
      [64 * MIB, "ring/simple", 9.23, 0.6],
      [256 * MIB, "ring/simple", 10.6, 0.4],
    ]),
  ],
  noise: inOneHost,
};

/** Table 2; Ring+Simple at 64 MB is from §3.2. */
export const PAPER_2X4_PROFILED: ClusterSpec = {
  name: "2x4 of table 2",
  fabric: {
    nodes: 2,
    gpusPerNode: 4,
    launchUs: LAUNCH_US,
    nvlink: NVLINK,
    network: { hopUs: 390, gbs: 0.62, ringLoss: 1.72 },
  },
  floorMs: 8.25,
  overlap: OVERLAP,
  measured: [
    ...cells(false, [
      [256 * KIB, "tree/simple", 9.5, 9.1],
      [MIB, "tree/simple", 11.3, 13.2],
      [4 * MIB, "auto", 15.5, 0],
      [16 * MIB, "tree/simple", 34.2, 15.9],
      [64 * MIB, "tree/simple", 116.5, 57.2],
      [256 * MIB, "tree/simple", 675.5, 0.5],
    ]).map((cell): Measured =>
      cell.bytes === 64 * MIB ? { ...cell, others: [{ arm: "ring/simple", ms: 337 }] } : cell,
    ),
    ...cells(true, [
      [256 * KIB, "tree/simple", 8.8, 10.9],
      [MIB, "tree/simple", 10.4, 13.5],
      [4 * MIB, "tree/simple", 14.1, 6.4],
      [16 * MIB, "tree/simple", 32.5, 11.5],
      [64 * MIB, "tree/simple", 148.6, 45.6],
      [256 * MIB, "tree/ll128", 678.1, 0],
    ]),
  ],
  noise: {
    jitter: { auto: 0.03, forced: 0.03 },
    stall: { ...STALL, perGiB: { auto: 0.4, forced: 0.31 } },
    settling: SETTLING,
  },
};

/** Table 3, 2×4. At 256 MB the arm that the bandit had picked took as long as AUTO (§4.2). */
export const PAPER_2X4: ClusterSpec = {
  name: "2x4",
  fabric: {
    nodes: 2,
    gpusPerNode: 4,
    launchUs: LAUNCH_US,
    nvlink: NVLINK,
    network: { hopUs: 390, gbs: 0.4, ringLoss: 1.72 },
  },
  floorMs: 8.25,
  overlap: OVERLAP,
  measured: [
    { bytes: 64 * MIB, hasOverlap: true, best: "tree/simple", bestMs: 166.6, autoMs: 287.3 },
    {
      bytes: 256 * MIB,
      hasOverlap: true,
      best: "auto",
      bestMs: 749.1,
      autoMs: 749.1,
      others: [{ arm: "tree/simple", ms: 749.2 }],
    },
  ],
  noise: {
    jitter: { auto: 0.03, forced: 0.052 },
    stall: { ...STALL, perGiB: { auto: 0.4, forced: 0.31 } },
    settling: SETTLING,
  },
};

/** Table 3, 4×2. */
export const PAPER_4X2: ClusterSpec = {
  name: "4x2",
  fabric: {
    nodes: 4,
    gpusPerNode: 2,
    launchUs: LAUNCH_US,
    nvlink: NVLINK,
    network: { hopUs: 200, gbs: 2, ringLoss: 1.72 },
  },
  floorMs: 8.25,
  overlap: OVERLAP,
  measured: [
    { bytes: 64 * MIB, hasOverlap: true, best: "tree/simple", bestMs: 60.9, autoMs: 81.8 },
    { bytes: 256 * MIB, hasOverlap: true, best: "tree/simple", bestMs: 194.6, autoMs: 251.7 },
  ],
  noise: {
    jitter: { auto: 0.07, forced: 0.031 },
    stall: { ...STALL, perGiB: { auto: 0.96, forced: 0.104 } },
    settling: SETTLING,
  },
};

/**
 * Where a job of the profiled 2×4 was moved to (§4.1): the arm that its policy names takes as long as before, AUTO is so fast that
 * the policy is 110 % slower than it.
 */
export const PAPER_2X4_MOVED: ClusterSpec = {
  ...PAPER_2X4_PROFILED,
  name: "2x4 after preemption",
  fabric: {
    ...PAPER_2X4_PROFILED.fabric,
    network: { ...PAPER_2X4_PROFILED.fabric.network, ringLoss: 0.5 },
  },
  measured: [
    {
      bytes: 64 * MIB,
      hasOverlap: true,
      best: "auto",
      bestMs: 148.6 / 2.1,
      autoMs: 148.6 / 2.1,
      others: [
        { arm: "tree/simple", ms: 148.6 },
        { arm: "tree/ll128", ms: (148.6 * 128) / 120 },
      ],
    },
  ],
};
