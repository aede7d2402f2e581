/**
 * @file What every arm would take in every iteration of one job: drawn once from a seed, so that all policies meet the same luck.
 *
 * Each arm has a stream of its own. A job may live through phases: from an iteration on it is on another cluster (it was preempted), or a neighbour's
 * traffic slows it. Ranks that disagree on the arm (which only random policies without agreement do) meet `mismatchedMs`. Cost: a draw for each
 * iteration of each arm that is asked for.
 */

import { randomFrom } from "../../lib/random.ts";
import type { EmulatedArm } from "./emulated-arms.ts";
import type { EmulatedCluster } from "./emulated-cluster.ts";
import { noisyMs } from "./noise.ts";

export interface Phase {
  readonly fromIteration: number;
  readonly cluster: EmulatedCluster;
  /** The job starts anew there, so it settles again. */
  readonly isRestart?: boolean;
}

interface JobPlan {
  readonly phases: readonly [Phase, ...Phase[]];
  readonly bytes: number;
  readonly hasOverlap: boolean;
  readonly iterations: number;
  readonly noiseScale: number;
  readonly seed: number;
}

export interface Draws {
  readonly iterations: number;
  readonly ms: (arm: EmulatedArm, iteration: number) => number;
  /** Without noise. */
  readonly medianMs: (arm: EmulatedArm, iteration: number) => number;
}

export function drawsOf(plan: JobPlan): Draws {
  const { iterations } = plan;
  const times = Array.from({ length: iterations }, (_, at) => phaseOf(plan, at));
  const known = new Map<EmulatedArm, ArmDraws>();
  const of = (arm: EmulatedArm): ArmDraws => {
    const before = known.get(arm);
    if (before !== undefined) return before;
    const drawn = armDraws(plan, times, arm);
    known.set(arm, drawn);
    return drawn;
  };
  return {
    iterations,
    ms: (arm, iteration) => of(arm).ms[iteration] ?? NaN,
    medianMs: (arm, iteration) => of(arm).medianMs[iteration] ?? NaN,
  };
}

interface ArmDraws {
  readonly ms: Float64Array;
  readonly medianMs: Float64Array;
}

interface Time {
  readonly phase: Phase;
  /** Iterations since the job started there. */
  readonly since: number;
}

function armDraws(plan: JobPlan, times: readonly Time[], arm: EmulatedArm): ArmDraws {
  const { phases, bytes, hasOverlap, noiseScale, seed } = plan;
  const byPhase = new Map(
    phases.map((phase) => [phase, phase.cluster.medianMs({ arm, bytes, hasOverlap })]),
  );
  const medianMs = Float64Array.from(times, ({ phase }) => byPhase.get(phase) ?? NaN);
  const random = randomFrom(seed, `collectives/${arm}`);
  const ms = Float64Array.from(times, ({ phase, since }, at) => {
    const moment = {
      arm,
      medianMs: medianMs[at] ?? NaN,
      bytes,
      iteration: since,
      scale: noiseScale,
    };
    return noisyMs(phase.cluster.noise, moment, random);
  });
  return { ms, medianMs };
}

function phaseOf({ phases }: JobPlan, iteration: number): Time {
  let phase = phases[0];
  let startedAt = 0;
  for (const next of phases) {
    if (next.fromIteration > iteration) break;
    phase = next;
    if (next.isRestart === true) startedAt = next.fromIteration;
  }
  return { phase, since: iteration - startedAt };
}

/**
 * Ranks that run different algorithms wait for each other until NCCL's slower half is through: as long as the slowest of the chosen arms, and as much
 * again as made the paper's random prototype 85.8 % slower than AUTO on 2×4 at 64 MB (§4.2), the only figure there is.
 */
const MISMATCH_FACTOR = 2.83;

export const mismatchedMs = (slowestMs: number): number => slowestMs * MISMATCH_FACTOR;
