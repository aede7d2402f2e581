/** @file The paper's four scenarios (table 3), and how a job is played: iterations, overlap, luck by seed. */

import { drawsOf, type Draws, type Phase } from "../../simulator/collectives/draws.ts";
import type { EmulatedArm } from "../../simulator/collectives/emulated-arms.ts";
import { emulatedCluster, type ClusterSpec } from "../../simulator/collectives/emulated-cluster.ts";
import {
  MIB,
  PAPER_2X4,
  PAPER_2X4_MOVED,
  PAPER_2X4_PROFILED,
  PAPER_4X2,
} from "../../simulator/collectives/paper-clusters.ts";

export interface Scenario {
  readonly name: string;
  readonly spec: ClusterSpec;
  readonly bytes: number;
  /** Of the emulator, without noise. */
  readonly best: EmulatedArm;
  /** Table 3. */
  readonly paper: { readonly autoMs: number; readonly banditMs: number };
}

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "4x2-64MB",
    spec: PAPER_4X2,
    bytes: 64 * MIB,
    best: "tree/simple",
    paper: { autoMs: 81.8, banditMs: 60.9 },
  },
  {
    name: "4x2-256MB",
    spec: PAPER_4X2,
    bytes: 256 * MIB,
    best: "tree/simple",
    paper: { autoMs: 251.7, banditMs: 194.6 },
  },
  {
    name: "2x4-64MB",
    spec: PAPER_2X4,
    bytes: 64 * MIB,
    best: "tree/simple",
    paper: { autoMs: 287.3, banditMs: 166.6 },
  },
  {
    name: "2x4-256MB",
    spec: PAPER_2X4,
    bytes: 256 * MIB,
    best: "auto",
    paper: { autoMs: 749.1, banditMs: 749.2 },
  },
];

export interface Luck {
  readonly seed: number;
  readonly iterations: number;
  readonly noiseScale: number;
}

export function jobOf({ spec, bytes }: Pick<Scenario, "spec" | "bytes">, luck: Luck): Draws {
  const phases: readonly [Phase] = [{ fromIteration: 0, cluster: emulatedCluster(spec) }];
  return drawsOf({ phases, bytes, hasOverlap: true, ...luck });
}

/** Where the shift happens in jobs that meet one. */
export const SHIFT_AT = 120;

export const SHIFTS = ["neighbour", "moved"] as const;
export type ShiftKind = (typeof SHIFTS)[number];

/** Of `forced` arms a neighbour's traffic takes half of the network; AUTO's rings go by other links and lose a tenth. */
function withNeighbour(spec: ClusterSpec): ClusterSpec {
  const measured = spec.measured.map((cell) => ({
    ...cell,
    best: "auto" as const,
    bestMs: cell.autoMs * 1.1,
    autoMs: cell.autoMs * 1.1,
    others: [{ arm: cell.best, ms: cell.bestMs * 2 }],
  }));
  return { ...spec, name: `${spec.name} with a neighbour`, measured };
}

/**
 * `neighbour`: on 2×4 at 64 MB the arm that was best becomes slower than AUTO, in a running job. `moved`: the job of the profiled 2×4 goes on, after a
 * preemption, where AUTO is faster than ever and the old arm is 110 % slower than it (§4.1).
 */
export function shiftedJob(kind: ShiftKind, luck: Luck): Draws {
  const before = kind === "moved" ? PAPER_2X4_PROFILED : PAPER_2X4;
  const after = kind === "moved" ? PAPER_2X4_MOVED : withNeighbour(PAPER_2X4);
  const phases: readonly [Phase, Phase] = [
    { fromIteration: 0, cluster: emulatedCluster(before) },
    { fromIteration: SHIFT_AT, cluster: emulatedCluster(after), isRestart: kind === "moved" },
  ];
  return drawsOf({ phases, bytes: 64 * MIB, hasOverlap: true, ...luck });
}

/** What another run of nccl-tests on the same hosts would have shown: 10 to warm up, 50 that count (§3). */
export function profileOf(scenario: Pick<Scenario, "spec" | "bytes">, luck: Luck): Draws {
  return jobOf(scenario, { ...luck, seed: luck.seed + 1_000_003, iterations: 60 });
}
