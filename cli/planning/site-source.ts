/**
 * @file Reads the GPUs to plan for: named on the command line, or all GPUs of a fleet file.
 *
 * `host:count[:type]`, several separated by commas; `cluster/host:count` for more than one cluster. With a fleet file, types,
 * memory and links come from it. Without `--gpus`, a gang that gets no grant (job-site.ts) is placed in the smallest cluster that holds it, else in the
 * largest ones, hosts in the order of the file.
 */

import { OrbweaverError } from "../../domain/values/failure.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import type { Fleet, HostShape } from "../../domain/fleet/fleet.ts";
import { gpuTeraflops, nvlinkGbs } from "../../domain/values/gpu-speed.ts";
import { GPU_TYPES, gpuTypeName, knownGpuType } from "../../domain/values/gpu-types.ts";
import { byCodeUnit, clusterOf } from "../../domain/values/ids.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import { fleetSite, insideOf } from "../../planning/parallelism/fleet-site.ts";
import {
  instancesProblem,
  USUAL_WAYS,
  type PlanHost,
  type PlanSite,
} from "../../planning/parallelism/site.ts";

export interface SiteWays {
  /** GB/s between hosts of a cluster, and between clusters. */
  readonly fabricGbs?: number;
  readonly wanGbs?: number;
  readonly hasNvlink: boolean;
}

interface NamedGpus {
  readonly host: string;
  readonly count: number;
  readonly type: string | undefined;
}

const DEFAULT_TYPE = "A100";

function namedGpus(text: string): readonly NamedGpus[] {
  return text.split(",").map((part) => {
    // A type of MIG instances has a colon of its own.
    const [host = "", count = "", ...words] = part.trim().split(":");
    const gpus = Number(count);
    if (host === "" || !Number.isInteger(gpus) || gpus < 1 || gpus > 1024)
      throw new OrbweaverError(
        "BAD_INPUT",
        `--gpus: ${JSON.stringify(part)} is not host:count. Write e.g. eu-1/h1:8,eu-2/h1:4 or a:8:H100.`,
      );
    const type = words.length === 0 ? undefined : gpuTypeName(words.join(":"));
    return { host, count: gpus, type };
  });
}

/** Without a fleet file. */
export function writtenSite(text: string, ways: SiteWays): PlanSite {
  const hosts = namedGpus(text).map(({ host, count, type = DEFAULT_TYPE }): PlanHost => {
    const instances = instancesProblem([{ id: host, gpuType: type }]);
    if (instances !== undefined) throw new OrbweaverError("BAD_INPUT", `--gpus: ${instances}`);
    const facts = knownGpuType(type);
    const teraflops = gpuTeraflops(type);
    if (facts === undefined || teraflops === undefined)
      throw new OrbweaverError(
        "BAD_INPUT",
        `--gpus: the GPU type ${type} of ${host} is not known. Known: ${GPU_TYPES.join(", ")}.`,
      );
    const hasNvlink = ways.hasNvlink && nvlinkGbs(type) !== undefined;
    return {
      id: host,
      cluster: host.includes("/") ? host.slice(0, host.indexOf("/")) : "local",
      gpuType: type,
      gpuCount: count,
      memoryGiB: facts.memoryGiB,
      teraflops,
      inside: insideOf(type, hasNvlink),
      nvlinkGpus: hasNvlink ? count : 1,
    };
  });
  const doubled = hosts.find(({ id }, at) => hosts.findIndex((host) => host.id === id) < at);
  if (doubled !== undefined)
    throw new OrbweaverError("BAD_INPUT", `--gpus: ${doubled.id} is named twice. Add its GPUs up.`);
  // A network card that nobody stated is at least as wide as the stated link between clusters.
  const cardGbs = Math.max(USUAL_WAYS.fabric.gbs, ways.wanGbs ?? 0);
  const fabric = {
    ...USUAL_WAYS.fabric,
    gbs: ways.fabricGbs ?? cardGbs,
    isAssumed: ways.fabricGbs === undefined,
  };
  const wan = {
    ...USUAL_WAYS.wan,
    gbs: ways.wanGbs ?? USUAL_WAYS.wan.gbs,
    isAssumed: ways.wanGbs === undefined,
  };
  return { hosts, fabric: () => fabric, between: () => wan };
}

/** Hosts of a fleet file, the first GPUs of each. */
export function fleetFileSite(fleet: Fleet, text: string | undefined, gangGpus: number): PlanSite {
  const hosts = fleet.shape.clusters.flatMap((cluster) => cluster.hosts);
  const gpus =
    text === undefined
      ? taken(hosts, gangGpus)
      : namedGpus(text).map(({ host, count }): HostGpus => {
          const found = hosts.find(({ id }) => id === host || id.endsWith(`/${host}`));
          if (found === undefined || found.gpuCount < count)
            throw new OrbweaverError(
              "BAD_INPUT",
              found === undefined
                ? `--gpus: the fleet file has no host ${host}. Name a host of it as cluster/host.`
                : `--gpus: ${found.id} has ${found.gpuCount} GPUs, not ${count}. Ask for fewer.`,
            );
          return { host: found.id, mask: 2 ** count - 1 };
        });
  return fleetSite(gpus, fleet.shape);
}

/** The fewest GPUs that a plan may use: a gang that accepts less has consented to idle ones. */
export function fewestOf(
  { hosts }: PlanSite,
  spec: JobSpec | undefined,
  { least, gpus }: { readonly least?: number; readonly gpus?: string },
): { readonly fewestGpus?: number } {
  const all = hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  if (least !== undefined && least > all)
    throw new OrbweaverError(
      "BAD_INPUT",
      `--least: there are ${all} GPUs to plan for, fewer than ${least}. Write at most ${all}.`,
    );
  const { gang } = spec ?? {};
  const ofGang = gang !== undefined && gpus === undefined && gang.min < gang.gpus;
  const fewest = least ?? (ofGang ? gang.min : undefined);
  return fewest === undefined ? {} : { fewestGpus: fewest };
}

function taken(hosts: readonly HostShape[], gangGpus: number): readonly HostGpus[] {
  const sizes = new Map<string, number>();
  for (const { id, gpuCount } of hosts)
    sizes.set(clusterOf(id), (sizes.get(clusterOf(id)) ?? 0) + gpuCount);
  const order = [...sizes].sort(
    ([a, sizeA], [b, sizeB]) =>
      // The smallest cluster that holds the gang, else the largest first.
      Number(sizeB >= gangGpus) - Number(sizeA >= gangGpus) ||
      (sizeA >= gangGpus ? sizeA - sizeB : sizeB - sizeA) ||
      byCodeUnit(a, b),
  );
  let left = gangGpus;
  const gpus: HostGpus[] = [];
  for (const [cluster] of order) {
    for (const { id, gpuCount } of hosts) {
      if (clusterOf(id) !== cluster || left === 0) continue;
      const count = Math.min(left, gpuCount);
      gpus.push({ host: id, mask: 2 ** count - 1 });
      left -= count;
    }
  }
  if (left > 0)
    throw new OrbweaverError(
      "BAD_INPUT",
      `the fleet file has ${gangGpus - left} GPUs, the job needs ${gangGpus}. Lower gang.gpus or name another fleet file.`,
    );
  return gpus;
}
