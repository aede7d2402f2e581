/**
 * @file What an agent orders so that just the broken GPUs of its hosts are out of service: new drains of GPUs, ends of its own that are over, and whole
 * hosts where no GPU is sound. What others have drained is left as it is. Pure.
 */

import type { HostGpus } from "../../domain/lease/lease.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { maskOf, membersOf } from "../../lib/bits.ts";
import { hostGpusOn, type HostGpu } from "../containment/host-gpus.ts";
import type { DrainedHost } from "./set-aside.ts";

export interface GpuPlaces {
  readonly id: HostId;
  readonly gpuCount: number;
  readonly gpus?: readonly HostGpu[];
}

export interface GpuOrders {
  /** Each with its own evidence. */
  readonly drain: readonly { readonly gpus: HostGpus; readonly why: string }[];
  readonly undrain: readonly HostGpus[];
  readonly drainHosts: readonly HostId[];
  readonly undrainHosts: readonly HostId[];
}

/** GPUs of the fleet's hosts. */
export type GpuCounts = ReadonlyMap<HostId, number>;

/** The hosts as the fleet describes them now, which may be otherwise than at the agent's start: it refuses orders about GPUs that it lacks. */
export const asDescribed = (hosts: readonly GpuPlaces[], counts: GpuCounts): readonly GpuPlaces[] =>
  hosts.flatMap((host) => {
    const gpuCount = counts.get(host.id);
    return gpuCount === undefined ? [] : [{ ...host, gpuCount }];
  });

/** `out`: why each GPU is to be out, by its place in the driver's order; `of`: how the reasons of this check's own drains begin. */
export function gpuOrders(
  hosts: readonly GpuPlaces[],
  seen: ReadonlyMap<HostId, DrainedHost>,
  { out, of }: { readonly out: ReadonlyMap<number, string>; readonly of: string },
): GpuOrders {
  const drain: { readonly gpus: HostGpus; readonly why: string }[] = [];
  const undrain: HostGpus[] = [];
  const drainHosts: HostId[] = [];
  const undrainHosts: HostId[] = [];
  for (const { id, gpuCount, gpus } of hosts) {
    const wanted = new Map<number, string>();
    for (const [place, why] of out)
      for (const gpu of hostGpusOn(gpus, [place])) if (gpu < gpuCount) wanted.set(gpu, why);
    const { isDrained = false, drainReason, gpuDrains = [] } = seen.get(id) ?? {};
    if (wanted.size === gpuCount) {
      if (!isDrained) drainHosts.push(id);
      continue;
    }
    const drained = new Set(gpuDrains.flatMap(({ mask }) => membersOf(mask)));
    for (const [gpu, why] of wanted)
      if (!drained.has(gpu)) drain.push({ gpus: { host: id, mask: 1 << gpu }, why });
    const over = ownGpus(gpuDrains, of).filter((gpu) => !wanted.has(gpu));
    if (over.length > 0) undrain.push({ host: id, mask: maskOf(over) });
    if (isDrained && drainReason?.startsWith(of) === true) undrainHosts.push(id);
  }
  return { drain, undrain, drainHosts, undrainHosts };
}

/** The GPUs of these hosts that are drained for a reason that begins so. */
export const ownDrains = (
  hosts: readonly HostId[],
  seen: ReadonlyMap<HostId, DrainedHost>,
  of: string,
): readonly HostGpus[] =>
  hosts.flatMap((host) => {
    const own = ownGpus(seen.get(host)?.gpuDrains ?? [], of);
    return own.length === 0 ? [] : [{ host, mask: maskOf(own) }];
  });

const ownGpus = (drains: NonNullable<DrainedHost["gpuDrains"]>, of: string): readonly number[] =>
  drains.flatMap(({ mask, reason }) => (reason.startsWith(of) ? membersOf(mask) : []));
