/**
 * @file The scenarios of BandPilot's §5.3: for each size of request, so many states of the cluster in which some GPUs are taken.
 *
 * How many GPUs are free is uniform from the size of the request to all of them; which ones is a uniform subset of that many. A scenario
 * whose free GPUs are as many as asked has one answer only: it is `isForced` and counts in no mean, and neither do requests of one GPU.
 */

import type { BandwidthDomain } from "../../domain/bandwidth/bandwidth-port.ts";
import { shuffled, type Random } from "../../lib/random.ts";

export interface Scenario {
  readonly gpus: number;
  readonly freeMasks: readonly number[];
  readonly isForced: boolean;
}

export interface ScenarioSizes {
  readonly smallest: number;
  readonly largest: number;
  /** Of each size. */
  readonly each: number;
}

export function scenariosOf(
  domain: BandwidthDomain,
  { smallest, largest, each }: ScenarioSizes,
  random: Random,
): readonly Scenario[] {
  const gpus = gpusOf(domain);
  const found: Scenario[] = [];
  for (let size = smallest; size <= Math.min(largest, gpus.length); size += 1) {
    const own = random.stream(`size ${String(size)}`);
    for (let count = 0; count < each; count += 1) {
      const free = size + own.below(gpus.length - size + 1);
      const freeMasks = domain.hosts.map(() => 0);
      for (const { host, bit } of shuffled(gpus, own).slice(0, free))
        freeMasks[host] = (freeMasks[host] ?? 0) | bit;
      found.push({ gpus: size, freeMasks, isForced: free === size });
    }
  }
  return found;
}

export const gpusOf = ({
  hosts,
}: BandwidthDomain): readonly { readonly host: number; readonly bit: number }[] =>
  hosts.flatMap(({ gpuCount }, host) =>
    Array.from({ length: gpuCount }, (_, gpu) => ({ host, bit: 1 << gpu })),
  );
