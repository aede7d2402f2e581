/**
 * @file How long an iteration takes on an emulated cluster, without noise: the fabric's physics, bent through what was measured.
 *
 * An iteration is a floor, a collective, and under overlap the contention of both for multiprocessors: what the arm keeps (`smPressure`) slows
 * the iteration by `contention` of the collective's time, and part of the collective hides behind the compute. Physics alone has a handful of parameters and is some
 * 10 % off; so at every measured size each arm gets the factor that makes it right there, and between sizes the logarithm of the factor is
 * interpolated over the logarithm of the size. An arm that a measurement does not name gets the factor of the best arm, but stays `LEAST_LAG`
 * behind the winner, because the measurement says that it did not win. AUTO has no physics of its own: it is what was measured, a share of the best
 * arm. Cost: O(arms · knots) when made, O(knots) a question.
 */

import { EMULATED_ARMS, type EmulatedArm } from "./emulated-arms.ts";
import { allReduceMs, smPressure, type Fabric } from "./fabric.ts";
import type { NoiseShape } from "./noise.ts";

export interface Measured {
  readonly bytes: number;
  readonly hasOverlap: boolean;
  readonly best: EmulatedArm;
  readonly bestMs: number;
  readonly autoMs: number;
  /** Further arms that the source reports. */
  readonly others?: readonly { readonly arm: EmulatedArm; readonly ms: number }[];
}

export interface ClusterSpec {
  readonly name: string;
  readonly fabric: Fabric;
  /** An iteration with nothing to send. */
  readonly floorMs: number;
  readonly overlap: {
    /** At most this much of a collective hides behind the compute. */
    readonly hiddenMs: number;
    /** Share of a collective's time that a unit of `smPressure` adds. */
    readonly contention: number;
  };
  readonly measured: readonly Measured[];
  readonly noise: NoiseShape;
}

export interface EmulatedCluster extends ClusterSpec {
  readonly medianMs: (question: MedianQuestion) => number;
}

interface MedianQuestion {
  readonly arm: EmulatedArm;
  readonly bytes: number;
  readonly hasOverlap: boolean;
}

const PRICED = ["tree/simple", "tree/ll128", "ring/simple", "ring/ll128"] as const;
/** Half of the tables' last digit. */
const LEAST_LAG = 1.0005;

interface Knot {
  readonly logBytes: number;
  /** Measured over physical, logarithm. */
  readonly logFactor: ReadonlyMap<EmulatedArm, number>;
}

export function emulatedCluster(spec: ClusterSpec): EmulatedCluster {
  const knots = { yes: knotsOf(spec, true), no: knotsOf(spec, false) };
  return {
    ...spec,
    medianMs: (question) => {
      const own = question.hasOverlap ? knots.yes : knots.no;
      const used = own.length > 0 ? own : question.hasOverlap ? knots.no : knots.yes;
      return physicalMs(spec, question) * Math.exp(factorAt(used, question));
    },
  };
}

function knotsOf(spec: ClusterSpec, hasOverlap: boolean): readonly Knot[] {
  return spec.measured
    .filter((cell) => cell.hasOverlap === hasOverlap)
    .sort((a, b) => a.bytes - b.bytes)
    .map((cell) => {
      const known = armsMs(spec, cell);
      const logFactor = new Map(
        EMULATED_ARMS.map((arm) => {
          const physical = physicalMs(spec, { arm, bytes: cell.bytes, hasOverlap });
          return [arm, Math.log((known.get(arm) ?? physical) / physical)] as const;
        }),
      );
      return { logBytes: Math.log(cell.bytes), logFactor };
    });
}

function armsMs(spec: ClusterSpec, cell: Measured): ReadonlyMap<EmulatedArm, number> {
  const physical = (arm: EmulatedArm): number => physicalMs(spec, { arm, ...cell });
  const winnerMs = Math.min(cell.bestMs, cell.autoMs);
  const leader = cell.best === "auto" ? fastest(physical) : cell.best;
  const factor = cell.bestMs / physical(leader);
  const reported = new Map((cell.others ?? []).map(({ arm, ms }) => [arm, ms]));
  return new Map(
    EMULATED_ARMS.map((arm) => {
      if (arm === "auto") return [arm, cell.autoMs];
      if (arm === cell.best) return [arm, cell.bestMs];
      return [arm, reported.get(arm) ?? Math.max(physical(arm) * factor, winnerMs * LEAST_LAG)];
    }),
  );
}

const fastest = (physical: (arm: EmulatedArm) => number): EmulatedArm =>
  PRICED.reduce<EmulatedArm>(
    (best, arm) => (physical(arm) < physical(best) ? arm : best),
    PRICED[0],
  );

/** AUTO starts from the fastest arm: where nothing was measured, it is as good as that. */
export function physicalMs(spec: ClusterSpec, { arm, bytes, hasOverlap }: MedianQuestion): number {
  if (arm === "auto")
    return Math.min(...PRICED.map((own) => physicalMs(spec, { arm: own, bytes, hasOverlap })));
  const collectiveMs = allReduceMs(spec.fabric, arm, bytes);
  if (!hasOverlap) return spec.floorMs + collectiveMs;
  const { hiddenMs, contention } = spec.overlap;
  const slowedMs = collectiveMs * (1 + contention * smPressure(arm));
  return spec.floorMs + slowedMs - Math.min(hiddenMs, collectiveMs);
}

function factorAt(knots: readonly Knot[], { arm, bytes }: MedianQuestion): number {
  const at = Math.log(bytes);
  const above = knots.findIndex(({ logBytes }) => logBytes >= at);
  const right = above < 0 ? knots.at(-1) : knots[above];
  const left = above <= 0 ? right : knots[above - 1];
  if (left === undefined || right === undefined) return 0;
  const [low, high] = [left.logFactor.get(arm) ?? 0, right.logFactor.get(arm) ?? 0];
  const width = right.logBytes - left.logBytes;
  return width === 0 ? high : low + ((high - low) * (at - left.logBytes)) / width;
}

/** The arm with the lowest median; ties go to the earlier one of `arms`. */
export function bestArm(
  cluster: EmulatedCluster,
  { bytes, hasOverlap }: Omit<MedianQuestion, "arm">,
  arms: readonly EmulatedArm[] = EMULATED_ARMS,
): EmulatedArm {
  const ms = (arm: EmulatedArm): number => cluster.medianMs({ arm, bytes, hasOverlap });
  return arms.reduce((best, arm) => (ms(arm) < ms(best) ? arm : best));
}

/** AUTO's excess over the best configuration, AUTO itself among them: the tables' "gap". */
export function autoGap(cluster: EmulatedCluster, question: Omit<MedianQuestion, "arm">): number {
  const best = cluster.medianMs({ ...question, arm: bestArm(cluster, question) });
  return cluster.medianMs({ ...question, arm: "auto" }) / best - 1;
}
