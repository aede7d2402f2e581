/**
 * @file The drawn jobs of a simulation without a trace: the frozen mix of `bench queue`, for any fleet and load.
 *
 * Gangs of more than half the fleet are left out of the mix, so that every job can run beside others.
 */

import { FROZEN_MIX } from "../../simulator/entrants/frozen-mix.ts";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { paperFleet } from "../../simulator/paper-fleet.ts";
import { drawPaperMix, type ClassMix } from "../../simulator/paper-mix.ts";
import type { Workload } from "../../simulator/workload.ts";

export const USUAL_LOAD = FROZEN_MIX.offeredLoad;
/** Takes a minute or two, because gangs of hundreds of GPUs make expensive cycles. */
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
