/**
 * @file What is due to whom now: weighted max-min shares of the fleet's GPUs, to classes and to tenants inside them.
 *
 * Nobody is due more than its demand (what it holds and what it waits for); what one does not use is shared by the others, by
 * weight (water-filling): share_i = min(demand_i, level · weight_i), with the one level at which the shares add up to the supply, or to
 * all demand when there is enough. A class's share is filled over its tenants in the same way, so the dues of its tenants add up to it.
 * Exact but for rounding: the level is found by going through the flows in the order in which they are satisfied.
 * Cost: O(k log k) for k flows. Ties: by key, which changes no share.
 */

import { byCodeUnit } from "../domain/ids.ts";
import { parentFlow, type FlowWeights } from "./queue/flow.ts";

export interface Demand {
  /** Unique. */
  readonly key: string;
  /** Above 0. */
  readonly weight: number;
  /** GPUs, 0 or more. */
  readonly gpus: number;
}

/** GPUs by key; they add up to the lesser of supply and demand. */
export function waterFill(demands: readonly Demand[], supplyGpus: number): Map<string, number> {
  const shares = new Map<string, number>();
  const order = [...demands].sort(
    (a, b) => a.gpus / a.weight - b.gpus / b.weight || byCodeUnit(a.key, b.key),
  );
  let left = Math.max(0, supplyGpus);
  let weightLeft = order.reduce((sum, { weight }) => sum + weight, 0);
  for (const { key, weight, gpus } of order) {
    const share = weightLeft > 0 ? Math.min(gpus, (left * weight) / weightLeft) : 0;
    shares.set(key, share);
    left -= share;
    weightLeft -= weight;
  }
  return shares;
}

/** `demands`: GPUs by tenant's flow. The answer has the flows of the tenants and of their classes. */
export function dueShares(
  demands: ReadonlyMap<string, number>,
  weightOf: FlowWeights,
  supplyGpus: number,
): ReadonlyMap<string, number> {
  const classes = new Map<string, Demand[]>();
  for (const [key, gpus] of demands) {
    const tenants = classes.get(parentFlow(key)) ?? [];
    classes.set(parentFlow(key), [...tenants, { key, weight: weightOf(key), gpus }]);
  }
  const wanted = [...classes].map(([key, tenants]) => ({
    key,
    weight: weightOf(key),
    gpus: tenants.reduce((sum, { gpus }) => sum + gpus, 0),
  }));
  const due = waterFill(wanted, supplyGpus);
  for (const [key, tenants] of classes) {
    for (const [flow, gpus] of waterFill(tenants, due.get(key) ?? 0)) due.set(flow, gpus);
  }
  return due;
}
