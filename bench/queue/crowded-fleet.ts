/**
 * @file The paper's 1,798 GPUs in three sites, nine tenths taken and fragmented: what there is to place gangs on, drawn from a seed.
 *
 * Made as fleets get that way: gangs of all sizes come and go at random and take the lowest free GPU ids, wherever these are, so
 * what is free lies in small pieces all over; then leases end, or gangs come, until nine tenths are taken. Each draw goes on
 * from the one before. A gang that is larger than all that is free can only be placed on GPUs that others give up: for those, the GPUs
 * of the leases that may be preempted, about seven of ten, count as free too, as they do when a preemption is planned.
 */

import type { HostLayout } from "../../scheduling/placement/layout.ts";
import type { PlaceHost } from "../../scheduling/placement/place-policy.ts";
import { openSpread, type FleetSpread } from "../../scheduling/placement/spread.ts";
import { paperFleet } from "../../simulator/paper-fleet.ts";
import type { Draw } from "../statistics.ts";

interface CrowdedFleet {
  readonly spread: FleetSpread;
  readonly gpus: number;
  /** With the next mixture of what is taken. */
  readonly next: () => Crowd;
}

export interface Crowd {
  readonly free: readonly PlaceHost[];
  /** With what a preemption could free. */
  readonly freeable: readonly PlaceHost[];
}

const TAKEN_SHARE = 0.9;
const PREEMPTIBLE_SHARE = 0.7;
const SIZES = [1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 16, 32, 64] as const;
/** Leases that end and come between two draws. */
const CHURN = 60;
const WARMING = 20;

interface GpuLease {
  readonly gpus: readonly number[];
  readonly isPreemptible: boolean;
}

export function crowdedFleet(draw: Draw): CrowdedFleet {
  const spread = openSpread(paperFleet());
  const layouts = [...spread.layout.values()];
  const gpus = layouts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const most = Math.round(TAKEN_SHARE * gpus);
  const isTaken = Array.from({ length: gpus }, () => false);
  const leases: GpuLease[] = [];
  let taken = 0;

  const come = (size: number): void => {
    const chosen: number[] = [];
    // Not always from the first GPU on, or the end of the fleet would stay untouched.
    const start = draw.below(gpus);
    for (let step = 0; step < gpus && chosen.length < size; step += 1) {
      const gpu = (start + step) % gpus;
      if (isTaken[gpu] === false) chosen.push(gpu);
    }
    for (const gpu of chosen) isTaken[gpu] = true;
    taken += chosen.length;
    leases.push({ gpus: chosen, isPreemptible: draw.unit() < PREEMPTIBLE_SHARE });
  };
  const go = (): void => {
    const [lease] = leases.splice(draw.below(leases.length), 1);
    for (const gpu of lease?.gpus ?? []) isTaken[gpu] = false;
    taken -= lease?.gpus.length ?? 0;
  };
  const settle = (): void => {
    while (taken > most) go();
    while (taken < most) come(Math.min(draw.of(SIZES), most - taken));
  };
  const churn = (): void => {
    for (let change = 0; change < CHURN; change += 1) {
      go();
      come(Math.min(draw.of(SIZES), gpus - taken));
    }
    settle();
  };

  settle();
  for (let round = 0; round < WARMING; round += 1) churn();
  return {
    spread,
    gpus,
    next: () => {
      churn();
      const kept = new Set(leases.flatMap((lease) => (lease.isPreemptible ? [] : lease.gpus)));
      return {
        free: hostsWith(layouts, (gpu) => isTaken[gpu] === false),
        freeable: hostsWith(layouts, (gpu) => !kept.has(gpu)),
      };
    },
  };
}

function hostsWith(
  layouts: readonly HostLayout[],
  isFree: (gpu: number) => boolean,
): readonly PlaceHost[] {
  const hosts: PlaceHost[] = [];
  let first = 0;
  for (const at of layouts) {
    let freeMask = 0;
    for (let gpu = 0; gpu < at.gpuCount; gpu += 1) {
      if (isFree(first + gpu)) freeMask |= 1 << gpu;
    }
    first += at.gpuCount;
    if (freeMask !== 0) hosts.push({ at, freeMask });
  }
  return hosts;
}
