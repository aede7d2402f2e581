/**
 * @file The GPUs of a host that are out of service while the rest of it grants on: which they are, and how a drain or its end changes them.
 *
 * Cost: O(drains of the host). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { HostId } from "../../../domain/values/ids.ts";
import type { HostGpus } from "../../../domain/lease/lease.ts";

/** From these rules on single GPUs are drained, and the rest of their host grants on (docs/decisions/0216). */
export const GPU_DRAIN_RULES = 11;

export interface GpuDrain {
  readonly mask: number;
  readonly reason: string;
  readonly sinceMs: number;
}

export interface WithGpuDrains {
  /** No new grants of these GPUs; disjoint, in the order of their drains. Absent for none. From `GPU_DRAIN_RULES` on. */
  readonly gpuDrains?: readonly GpuDrain[];
}

/** What takes hosts or GPUs out of service, and what ends that. */
export type Drain =
  | { readonly kind: "drain"; readonly hosts: readonly HostId[]; readonly reason: string }
  | { readonly kind: "undrain"; readonly hosts: readonly HostId[] }
  | { readonly kind: "drain-gpus"; readonly gpus: readonly HostGpus[]; readonly reason: string }
  | { readonly kind: "undrain-gpus"; readonly gpus: readonly HostGpus[] };

export const drainedMask = (status: WithGpuDrains | undefined): number =>
  status?.gpuDrains?.reduce((all, { mask }) => all | mask, 0) ?? 0;

/** A later reason takes the place of an earlier one. The same drains where all of these GPUs are drained for this reason. */
export function withGpuDrain(drains: readonly GpuDrain[], added: GpuDrain): readonly GpuDrain[] {
  const said = drainedMask({ gpuDrains: drains.filter(({ reason }) => reason === added.reason) });
  const mask = added.mask & ~said;
  return mask === 0 ? drains : [...withoutGpuDrains(drains, mask), { ...added, mask }];
}

export const withoutGpuDrains = (drains: readonly GpuDrain[], mask: number): readonly GpuDrain[] =>
  drains.flatMap((drain) => {
    const left = drain.mask & ~mask;
    return left === 0 ? [] : [{ ...drain, mask: left }];
  });

/** Those of the GPUs that are in service, on hosts that are. */
export const withoutDrained = (
  gpus: readonly HostGpus[],
  hosts: ReadonlyMap<HostId, WithGpuDrains>,
): readonly HostGpus[] =>
  gpus.flatMap((part) => {
    const drained = part.mask & drainedMask(hosts.get(part.host));
    if (drained === 0) return [part];
    const mask = part.mask & ~drained;
    return mask === 0 ? [] : [{ host: part.host, mask }];
  });
