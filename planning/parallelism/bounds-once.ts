/** @file What is found of the layers of stages, kept where it holds for other arrangements of the same degrees. */

import type { PlanModel } from "./models.ts";
import type { PlanSite } from "./site.ts";
import type { OpenSplit } from "./stage-bounds.ts";

interface OfRequest {
  readonly site: PlanSite;
  readonly model: PlanModel;
  readonly budget?: { readonly spend: (cells: number) => void };
}

/** On hosts that are alike, bounds do not depend on the arrangement: what is found of one holds for all others of the same degrees. */
export function boundsOnce<Found>(
  { site, model, budget }: OfRequest,
  find: (open: OpenSplit) => Found,
): (open: OpenSplit) => Found {
  const boundsFor = (open: OpenSplit): Found => {
    budget?.spend(model.layers.length + open.cells.length);
    return find(open);
  };
  const [first] = site.hosts;
  const isUniform = site.hosts.every(
    ({ teraflops, memoryGiB }) => teraflops === first?.teraflops && memoryGiB === first.memoryGiB,
  );
  if (!isUniform) return boundsFor;
  const known = new Map<string, { readonly found: Found }>();
  return (open) => {
    const { microBatch, isRecomputing, isRecomputingScores, shards } = open;
    const key = [microBatch, isRecomputing, isRecomputingScores, open.isSharded, shards].join();
    const held = known.get(key);
    if (held !== undefined) {
      budget?.spend(1);
      return held.found;
    }
    const found = boundsFor(open);
    known.set(key, { found });
    return found;
  };
}
