/** @file What was found of a list of cells on a site, kept as long as the list is: sites and lists of cells are values, so it stays true. */

import type { PlanSite, Unit } from "./site.ts";

export interface CellsOfSite {
  readonly site: PlanSite;
  readonly cells: readonly Unit[];
  /** All else that the finding follows from. */
  readonly key: string;
}

/** A store of its own. */
export function keptOfCells<Found>(): (of: CellsOfSite, find: () => Found) => Found {
  const known = new WeakMap<PlanSite, WeakMap<readonly Unit[], Map<string, Found>>>();
  return ({ site, cells, key }, find) => {
    const ofSite = known.get(site) ?? new WeakMap<readonly Unit[], Map<string, Found>>();
    known.set(site, ofSite);
    const ofCells = ofSite.get(cells) ?? new Map<string, Found>();
    ofSite.set(cells, ofCells);
    const held = ofCells.get(key);
    if (held !== undefined) return held;
    const found = find();
    ofCells.set(key, found);
    return found;
  };
}
