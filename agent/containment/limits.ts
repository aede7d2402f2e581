/**
 * @file What one launch may use of its host beside its GPUs: processors and memory, in proportion to its GPUs unless the job says how much.
 *
 * A GPU carries an equal share of its host. Where the fleet counts an amount, because its description states it, a job may ask for up to all of
 * it: the fleet grants no more than the leases of the host leave. Elsewhere a job may ask for less than the shares of its GPUs and never for more.
 * Either way the launches of a host never need more than it has. Pure.
 */

import { popCount } from "../../domain/lease/lease.ts";
import { amountText } from "../../domain/job/job-resources.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";

/** What all GPUs of a host share; what is absent is not limited unless a job says so. */
export interface HostResources {
  readonly cpus?: number;
  readonly memoryBytes?: number;
  /** The amounts that the fleet's description states. */
  readonly stated?: readonly ("cpus" | "memoryBytes")[];
}

export interface LaunchLimits {
  readonly cpus?: number;
  readonly memoryBytes?: number;
  /** What all launches of the host share. */
  readonly hostCpus?: number;
}

/** Share and need come from divisions. */
const EPSILON = 1e-9;
const GIB = 2 ** 30;

export interface LimitedHost {
  readonly gpuCount: number;
  readonly resources: HostResources;
}

/** The limits of the order's launch on its host, or why the host cannot keep to them. */
export function launchLimits(
  order: RunOrder,
  { gpuCount, resources }: LimitedHost,
): { readonly limits: LaunchLimits } | { readonly refusal: string } {
  const gpus = popCount(order.gang.find((part) => part.host === order.host)?.mask ?? 0);
  const share = gpus / gpuCount;
  const need = neededHere(order, gpus);
  const has = {
    ...(resources.cpus !== undefined && { cpus: resources.cpus * share }),
    ...(resources.memoryBytes !== undefined && { memoryBytes: resources.memoryBytes * share }),
  };
  for (const key of ["cpus", "memoryBytes"] as const) {
    const isCounted =
      order.holder.resources !== undefined && resources.stated?.includes(key) === true;
    const [needed, most] = [need[key], isCounted ? resources[key] : has[key]];
    if (needed === undefined || most === undefined || needed <= most * (1 + EPSILON)) continue;
    if (isCounted)
      return {
        refusal: `it needs ${amountText(key, needed)} for ${gpus} GPUs, and the host has ${amountText(key, most)}. Ask for less in resources.`,
      };
    return {
      refusal: `it needs ${amountText(key, needed)} for ${gpus} of ${gpuCount} GPUs, whose share there is ${amountText(key, most)}. Ask for less in resources, or for more GPUs.`,
    };
  }
  const { cpus, memoryBytes } = { ...has, ...need };
  return {
    limits: {
      ...(cpus !== undefined && { cpus }),
      ...(memoryBytes !== undefined && { memoryBytes: Math.floor(memoryBytes) }),
      ...(resources.cpus !== undefined && { hostCpus: resources.cpus }),
    },
  };
}

/** A total is that of the whole gang, of each task in a job array, and falls to hosts by their GPUs. */
function neededHere({ run, gang, taskBatch }: RunOrder, gpus: number): LaunchLimits {
  if (run.resources === undefined) return {};
  const { per, cpus, memoryGiB } = run.resources;
  const granted = gang.reduce((sum, { mask }) => sum + popCount(mask), 0);
  const times = per === "gpu" ? gpus : gpus / (taskBatch?.gpusPerTask ?? granted);
  return {
    ...(cpus !== undefined && { cpus: cpus * times }),
    ...(memoryGiB !== undefined && { memoryBytes: memoryGiB * GIB * times }),
  };
}
