/**
 * @file Weighted max-min shares of the fleet's GPUs: the GPUs that are due to each class, and to each tenant inside a class.
 *
 * No flow is due more than its demand (the GPUs it holds and waits for); its unused share goes to the others by weight (water-filling):
 * share_i = min(demand_i, level · weight_i), with the one level at which the shares add up to the supply, or to the whole demand when there
 * is enough. A class's share is filled over its tenants in the same way, so the shares of its tenants add up to it.
 * Exact but for rounding: the level is found by visiting the flows in the order in which they are satisfied.
 * Cost: O(k log k) for k flows. Ties: by key, which changes no share.
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import { parentFlow, type FlowWeights } from "../ledger/rules/flow.ts";

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
export const dueShares = (
  demands: ReadonlyMap<string, number>,
  weightOf: FlowWeights,
  supplyGpus: number,
): ReadonlyMap<string, number> => fillBoth(demands, weightOf, { supplyGpus, fill: waterFill });

/**
 * The same in whole GPUs, which is what can be held: among siblings every share is rounded down, and what is over goes to those
 * with the largest remainders; ties to the larger weight, then by key. They add up to the whole supply or demand.
 */
export const wholeDueShares = (
  demands: ReadonlyMap<string, number>,
  weightOf: FlowWeights,
  supplyGpus: number,
): ReadonlyMap<string, number> => fillBoth(demands, weightOf, { supplyGpus, fill: wholeFill });

type Fill = typeof waterFill;

function fillBoth(
  demands: ReadonlyMap<string, number>,
  weightOf: FlowWeights,
  { supplyGpus, fill }: { readonly supplyGpus: number; readonly fill: Fill },
): ReadonlyMap<string, number> {
  const classes = new Map<string, Demand[]>();
  for (const [key, gpus] of demands) {
    const tenants = classes.get(parentFlow(key)) ?? [];
    tenants.push({ key, weight: weightOf(key), gpus });
    classes.set(parentFlow(key), tenants);
  }
  const wanted = [...classes].map(([key, tenants]) => ({
    key,
    weight: weightOf(key),
    gpus: tenants.reduce((sum, { gpus }) => sum + gpus, 0),
  }));
  const due = fill(wanted, supplyGpus);
  for (const [key, tenants] of classes) {
    for (const [flow, gpus] of fill(tenants, due.get(key) ?? 0)) due.set(flow, gpus);
  }
  return due;
}

/** Shares are sums of floats. */
const SHARE_EPSILON = 1e-9;

/** Whole demands and a whole supply are given. */
function wholeFill(demands: readonly Demand[], supplyGpus: number): Map<string, number> {
  const exact = waterFill(demands, supplyGpus);
  const shares = new Map<string, number>();
  let over = 0;
  for (const [key, gpus] of exact) {
    shares.set(key, Math.floor(gpus + SHARE_EPSILON));
    over += gpus - Math.floor(gpus + SHARE_EPSILON);
  }
  const remainder = ({ key }: Demand): number => (exact.get(key) ?? 0) - (shares.get(key) ?? 0);
  const order = demands
    .filter((demand) => remainder(demand) > SHARE_EPSILON)
    .sort((a, b) => {
      const more = remainder(b) - remainder(a);
      if (Math.abs(more) > SHARE_EPSILON) return more;
      return b.weight - a.weight || byCodeUnit(a.key, b.key);
    });
  for (const { key } of order.slice(0, Math.round(over)))
    shares.set(key, (shares.get(key) ?? 0) + 1);
  return shares;
}
