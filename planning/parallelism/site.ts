/**
 * @file The site of a job's GPUs as a parallelism plan sees it: hosts with their GPUs, and the cost of a byte between any two of them.
 *
 * Three kinds of link: inside a host, between hosts of one cluster, between clusters. `gbs` is GB/s in one direction.
 */

import { isMigType } from "../../domain/values/gpu-types.ts";

export interface Way {
  readonly gbs: number;
  readonly latencyMs: number;
  /** Nobody stated it: a default counts. */
  readonly isAssumed?: boolean;
}

export interface PlanHost {
  readonly id: string;
  readonly cluster: string;
  readonly gpuType: string;
  readonly gpuCount: number;
  readonly memoryGiB: number;
  /** Peak of one GPU. */
  readonly teraflops: number;
  /** Between two of its GPUs. */
  readonly inside: Way;
  /** GPUs that reach each other over NVLink alone, at most; 1 without it. */
  readonly nvlinkGpus: number;
}

export interface PlanSite {
  /** In the order of ranks, but that those begin on the host of a plan's first stage. */
  readonly hosts: readonly PlanHost[];
  readonly fabric: (cluster: string) => Way;
  readonly between: (from: string, to: string) => Way;
  /** By a plan's name, how many times longer it was measured than its terms say; 1 where absent. */
  readonly measured?: ReadonlyMap<string, number>;
}

/** The defaults where a fleet file is silent. Sources: SpiderFlow §5.1 (PCIe 4, NVLink) and §5.5 (inter-node). */
export const USUAL_WAYS = Object.freeze({
  nvlink: { gbs: 25, latencyMs: 0.01, isAssumed: true },
  pcie: { gbs: 4, latencyMs: 0.02, isAssumed: true },
  fabric: { gbs: 1, latencyMs: 0.05, isAssumed: true },
  wan: { gbs: 0.625, latencyMs: 10, isAssumed: true },
});

/**
 * Why no model is split over GPUs of these types; undefined where none is an instance of MIG. A process opens one instance, and none reaches another by peer
 * access or NVLink, so the collectives of a plan do not run. Source: NVIDIA's MIG user guide, "Application Considerations".
 */
export function instancesProblem(
  hosts: readonly Pick<PlanHost, "id" | "gpuType">[],
): string | undefined {
  const found = hosts.find(({ gpuType }) => isMigType(gpuType));
  if (found === undefined) return undefined;
  const [whole = ""] = found.gpuType.split(":");
  return `${found.gpuType} of ${found.id} is an instance of MIG. Instances reach each other neither by NVLink nor by peer access, so no model is split over them. Name whole GPUs, such as ${whole}, or run one process an instance without a plan.`;
}

export function wayBetween(site: PlanSite, a: PlanHost, b: PlanHost): Way {
  if (a === b) return a.inside;
  return a.cluster === b.cluster ? site.fabric(a.cluster) : site.between(a.cluster, b.cluster);
}

/** GPUs that run one piece of the model together: `width` GPUs of one host. */
export interface Unit {
  readonly host: number;
  /** Counted over all GPUs of the site. */
  readonly firstRank: number;
  readonly width: number;
}

/**
 * The site cut into units of `width` GPUs; undefined when a host's GPUs do not divide or do not share NVLink. With `mayIdle` such GPUs are left
 * out instead.
 */
export function unitsOf(
  { hosts }: PlanSite,
  width: number,
  mayIdle = false,
): readonly Unit[] | undefined {
  const units: Unit[] = [];
  let rank = 0;
  for (const [host, { gpuCount, nvlinkGpus }] of hosts.entries()) {
    const isWhole = gpuCount % width === 0 && (width === 1 || nvlinkGpus % width === 0);
    if (!isWhole && !mayIdle) return undefined;
    for (let from = 0; from < gpuCount; from += nvlinkGpus) {
      const to = Math.min(gpuCount, from + nvlinkGpus);
      for (let at = from; at + width <= to; at += width)
        units.push({ host, firstRank: rank + at, width });
    }
    rank += gpuCount;
  }
  return units;
}
