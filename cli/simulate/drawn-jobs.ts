/**
 * @file The jobs that are drawn when no trace is given: the frozen mix of `bench queue`, for any fleet and load.
 *
 * Gangs of more than half the fleet are left out of the mix, so that every job can run beside others.
 */

import { FROZEN_MIX } from "../../bench/queue/mix.ts";
import type { FleetShape } from "../../domain/fleet.ts";
import { paperFleet } from "../../simulator/paper-fleet.ts";
import { drawPaperMix, type ClassMix } from "../../simulator/paper-mix.ts";
import type { Workload } from "../../simulator/workload.ts";

export const USUAL_LOAD = FROZEN_MIX.offeredLoad;
/** A minute or two: gangs of hundreds of GPUs make dear cycles. */
export const USUAL_JOBS = 2_000;

export interface DrawnJobs {
  readonly fleet: FleetShape;
  readonly jobs: number;
  readonly load: number;
  readonly seed: number;
}

export const usualFleet = (): FleetShape => paperFleet();

export function drawnJobs({ fleet, jobs, load, seed }: DrawnJobs): Workload {
  const gpus = fleet.clusters
    .flatMap(({ hosts }) => hosts)
    .reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const fitting = (mix: ClassMix): ClassMix => ({
    ...mix,
    sizes: mix.sizes.filter(([size], at) => at === 0 || size <= gpus / 2),
  });
  const { inference, interactive, training } = FROZEN_MIX.classes;
  const classes =
    gpus >= FROZEN_MIX.gpus
      ? FROZEN_MIX.classes
      : {
          inference: fitting(inference),
          interactive: fitting(interactive),
          training: fitting(training),
        };
  return drawPaperMix({ ...FROZEN_MIX, classes, gpus, jobs, offeredLoad: load }, seed);
}
