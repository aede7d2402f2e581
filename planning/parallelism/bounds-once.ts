/** @file What is found of the layers of stages, kept where it holds for other arrangements of the same degrees. */

import type { PlanModel } from "./models.ts";
import type { PlanSite } from "./site.ts";
import { stageKinds, type OpenSplit } from "./stage-bounds.ts";

interface OfRequest {
  readonly site: PlanSite;
  readonly model: PlanModel;
  readonly budget?: { readonly spend: (cells: number) => void };
}

/**
 * Bounds depend on an arrangement by the slowest GPU and the smallest card of each stage alone: what is found of one holds for all others of the same degrees in which these are alike. On
 * hosts that are alike that is any.
 */
export function boundsOnce<Found>(
  { site, model, budget }: OfRequest,
  find: (open: OpenSplit) => Found,
): (open: OpenSplit) => Found {
  const [first] = site.hosts;
  const isUniform = site.hosts.every(
    ({ teraflops, memoryGiB }) => teraflops === first?.teraflops && memoryGiB === first.memoryGiB,
  );
  const known = new Map<string, { readonly found: Found }>();
  return (open) => {
    const { microBatch, isRecomputing, isRecomputingScores, shards } = open;
    const mode = [microBatch, isRecomputing, isRecomputingScores, open.isSharded, shards].join();
    const key = isUniform ? mode : `${mode} ${kindsKey(open, site)}`;
    const held = known.get(key);
    if (held !== undefined) {
      budget?.spend(1);
      return held.found;
    }
    budget?.spend(model.layers.length + open.cells.length);
    const found = find(open);
    known.set(key, { found });
    return found;
  };
}

function kindsKey(open: OpenSplit, site: PlanSite): string {
  const { speeds, cards } = stageKinds(open, site);
  return `${speeds.join()} ${cards.join()}`;
}
