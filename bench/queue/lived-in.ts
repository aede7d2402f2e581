/**
 * @file What becomes of a fleet that lives under one placement policy: how well gangs are placed when all that runs was placed by it.
 *
 * The same gangs in the same order for every policy, mostly small ones; nine tenths of the paper's fleet are taken at any time, and the next
 * end is drawn among those that run. A policy that fragments the fleet pays for it here. Whole hosts alone say little: a policy that
 * scatters large gangs over the pieces keeps many.
 */

import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { PlaceHost, PlacePolicy } from "../../scheduling/placement/place-policy.ts";
import { openSpread, throughputOf } from "../../scheduling/placement/spread.ts";
import { fullMask } from "../../lib/bits.ts";
import { paperFleet } from "../../simulator/paper-fleet.ts";
import { drawFrom } from "../statistics.ts";

const TAKEN_SHARE = 0.9;
const ARRIVALS = 2_000;
/** Arrivals until the fleet has its usual look. */
const WARMING = 1_000;
const SIZES = [1, 1, 1, 1, 1, 1, 2, 2, 2, 4, 4, 8, 8, 16, 32] as const;
/** From here on a gang can be spread badly. */
const LARGE_GPUS = 8;

interface LivedIn {
  /** Mean over the GPUs of gangs of eight and more. */
  readonly throughput: number;
  /** Mean share of the free GPUs that lie in hosts without any lease. */
  readonly wholeHosts: number;
}

export function livedIn(policy: PlacePolicy, seed: number): LivedIn {
  const draw = drawFrom(seed);
  const spread = openSpread(paperFleet());
  const hosts = [...spread.layout.values()].map((at) => ({ at, freeMask: fullMask(at.gpuCount) }));
  const byId = new Map(hosts.map((host) => [host.at.host, host]));
  const all = hosts.reduce((sum, { at }) => sum + at.gpuCount, 0);
  const leases: (readonly HostGpus[])[] = [];
  const flip = (gpus: readonly HostGpus[]): number => {
    for (const { host, mask } of gpus) {
      const there = byId.get(host);
      if (there !== undefined) there.freeMask ^= mask;
    }
    return gpus.reduce((count, { mask }) => count + popCount(mask), 0);
  };
  let free = all;
  let placedGpus = 0;
  let working = 0;
  let whole = 0;
  for (let arrival = 0; arrival < ARRIVALS; arrival += 1) {
    const gpus = draw.of(SIZES);
    while (free - gpus < (1 - TAKEN_SHARE) * all) {
      const [ended = []] = leases.splice(draw.below(leases.length), 1);
      free += flip(ended);
    }
    const demand = { gpus, maxClusters: 3, isSameHost: false, isSameFabric: false };
    const placed = policy(demand, hosts, { spread }).gpus;
    if (placed === undefined) throw new Error(`no place was found for ${String(gpus)} GPUs`);
    leases.push(placed);
    free -= flip(placed);
    if (arrival < WARMING) continue;
    whole += wholeGpus(hosts) / free;
    if (gpus < LARGE_GPUS) continue;
    placedGpus += gpus;
    working += gpus * throughputOf(placed, spread);
  }
  return { throughput: working / placedGpus, wholeHosts: whole / (ARRIVALS - WARMING) };
}

const wholeGpus = (hosts: readonly PlaceHost[]): number =>
  hosts.reduce(
    (sum, { at, freeMask }) => sum + (freeMask === fullMask(at.gpuCount) ? at.gpuCount : 0),
    0,
  );
