/** @file Checks the power of a placement against the budgets of racks, clusters and sites. */

import type { HostId } from "../../domain/values/ids.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { HostLayout } from "./layout.ts";
import type { PlaceHost, WattsLeft } from "./place-policy.ts";

export const BUDGETS = ["rack", "cluster", "site"] as const;

/** Number of GPUs of this draw that fit into the remaining watts. */
export const gpusWithinWatts = (wattsLeft: number, gpuWatts: number): number =>
  gpuWatts > 0 ? Math.max(0, Math.floor(wattsLeft / gpuWatts)) : Infinity;

/** Whether all budgets are kept; false also when a GPU is on none of the hosts. Cost: O(hosts). */
export function isWithinWatts(
  wattsLeft: WattsLeft | undefined,
  hosts: readonly PlaceHost[],
  gpus: readonly HostGpus[],
): boolean {
  if (wattsLeft === undefined) return true;
  const layouts = new Map<HostId, HostLayout>(hosts.map(({ at }) => [at.host, at]));
  return BUDGETS.every((level) => {
    const left = wattsLeft[level];
    if (left === undefined) return true;
    const drawn = new Map<number, { readonly at: HostLayout; watts: number }>();
    for (const { host, mask } of gpus) {
      const at = layouts.get(host);
      if (at === undefined) return false;
      const sum = drawn.get(at[level]) ?? { at, watts: 0 };
      sum.watts += popCount(mask) * at.gpuWatts;
      drawn.set(at[level], sum);
    }
    return [...drawn.values()].every(({ at, watts }) => watts <= left(at));
  });
}
