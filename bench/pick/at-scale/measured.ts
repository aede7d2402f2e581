/**
 * @file What is measured of a large cluster before anything is picked: the sets that `fleet measure` would take, with their true bandwidth.
 *
 * Sets are measured where nothing else runs, as on drained hosts, with an error of `NOISE`.
 */

import type { BandwidthSample } from "../../../domain/bandwidth/bandwidth-port.ts";
import type { Random } from "../../../lib/random.ts";
import { measuringSets } from "../../../models/measuring/measuring-sets.ts";
import type { FabricField } from "./field.ts";

/** Relative standard deviation between two runs of nccl-tests on the same GPUs. */
const NOISE = 0.01;

export function measuredSets(
  { domain, truth }: FabricField,
  { count, random }: { readonly count: number; readonly random: Random },
): readonly BandwidthSample[] {
  const sets = measuringSets(domain, { count, random: random.stream("sets"), measured: [] });
  const noise = random.stream("noise");
  return sets.map((shares) => ({
    shares,
    gbs: truth.gbs(shares) * Math.exp(NOISE * noise.normal()),
  }));
}
