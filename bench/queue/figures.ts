/** @file The few figures of a simulation that the bench compares, and their means over seeds. */

import type { SimulationResult } from "../../simulator/result.ts";
import { quantile } from "../statistics.ts";

export interface Figures {
  readonly utilisation: number;
  /** With the spread loss charged. */
  readonly utilisationAtBestSpread: number;
  readonly occupancy: number;
  readonly inferenceP50Ms: number;
  readonly inferenceP99Ms: number;
  readonly interactiveP99Ms: number;
  readonly trainingQueuedMs: number;
  readonly trainingCompletionMs: number;
  readonly trainingLost: number;
  readonly starvedTenants: number;
  readonly starvedJobs: number;
  readonly longestWaitMs: number;
  readonly evictions: number;
  readonly grants: number;
  readonly cycles: number;
  /** Of the GPU-seconds in service. */
  readonly spreadLoss: number;
  /** Idle because they are reserved for jobs that cannot start yet. */
  readonly behindReservations: number;
  readonly idle: number;
  readonly recalls: number;
}

export function figuresOf(result: SimulationResult): Figures {
  const of = (name: string): SimulationResult["classes"][number] | undefined =>
    result.classes.find((group) => group.name === name);
  const { gpuSeconds, preemption } = result;
  return {
    utilisation: result.utilisation,
    utilisationAtBestSpread: result.utilisationAtBestSpread,
    occupancy: result.occupancy,
    inferenceP50Ms: of("inference")?.wait.p50 ?? NaN,
    inferenceP99Ms: of("inference")?.wait.p99 ?? NaN,
    interactiveP99Ms: of("interactive")?.wait.p99 ?? NaN,
    trainingQueuedMs: of("training")?.queued.mean ?? NaN,
    trainingCompletionMs: of("training")?.completion.mean ?? NaN,
    trainingLost: result.trainingLost,
    starvedTenants: result.starved.tenants,
    starvedJobs: result.starved.jobs,
    longestWaitMs: result.starved.longestWaitMs,
    evictions: preemption.evictions + preemption.shrinks,
    grants: result.decisions.grants,
    cycles: result.decisions.cycles,
    spreadLoss: gpuSeconds.spreadLoss / gpuSeconds.inService,
    behindReservations: result.idle.reservations / gpuSeconds.inService,
    idle: gpuSeconds.idle / gpuSeconds.inService,
    recalls: preemption.recalls,
  };
}

export interface OverSeeds {
  readonly mean: number;
  readonly least: number;
  readonly most: number;
}

export function overSeeds(all: readonly Figures[], of: (figures: Figures) => number): OverSeeds {
  const values = all.map(of);
  return {
    mean: values.reduce((sum, value) => sum + value, 0) / values.length,
    least: quantile(values, 0),
    most: quantile(values, 1),
  };
}

/** The p99 of the waits of all seeds together: of a few thousand waits, the p99 of one seed alone is a matter of luck. */
export function pooledInferenceP99Ms(results: readonly SimulationResult[]): number {
  const waitsMs = results.flatMap(({ jobRows = [], window, endedAtMs }) =>
    jobRows.flatMap((row) =>
      row.class === "inference" &&
      row.submittedAtMs >= window.fromMs &&
      row.submittedAtMs <= window.toMs
        ? [(row.firstGrantAtMs ?? endedAtMs) - row.submittedAtMs]
        : [],
    ),
  );
  return quantile(waitsMs, 0.99);
}
