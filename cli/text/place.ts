/** @file The place of a job, or the reason for its waiting, in few words. */

import type { HostGpus, ListedJob } from "../../client/index.ts";
import { gpuList } from "../terminal/gpu-list.ts";

/**
 * `eu-1/host-3`, `eu-1/host-3,host-4`, `eu-1 (5 hosts)`, `eu-1,us-2 (9 hosts)`; the reason's code for a waiting job; `for
 * infer-3` while its GPUs are taken for that job.
 */
/** `fleet` is the listed fleet; a job that moved shows the other fleet's name. */
export function whereText(job: ListedJob, fleet: string): string {
  const away = job.fleet === undefined || job.fleet === fleet ? "" : `fleet ${job.fleet}: `;
  return (
    away + placeText(job) + (job.moved === undefined || away === "" ? "" : movedText(job.moved))
  );
}

const movedText = ({ from, code }: NonNullable<ListedJob["moved"]>): string =>
  ` (from ${from}: ${code})`;

function placeText(job: ListedJob): string {
  if (job.pending !== undefined) return job.pending.code;
  if (job.preemptedFor !== undefined)
    return job.preemptedFor === job.jobId ? "stops to grow" : `for ${job.preemptedFor}`;
  if (job.hosts.length > 0) return hostsText(job.hosts);
  return job.clusters.join(",");
}

/** Hosts by cluster, counted when they are many. */
export function hostsText(hosts: readonly string[]): string {
  const byCluster = new Map<string, string[]>();
  for (const host of hosts) {
    const [cluster = "", name = ""] = host.split("/");
    byCluster.set(cluster, [...(byCluster.get(cluster) ?? []), name]);
  }
  if (hosts.length > MAX_NAMED) {
    return `${[...byCluster.keys()].join(",")} (${String(hosts.length)} hosts)`;
  }
  return [...byCluster].map(([cluster, names]) => `${cluster}/${names.join(",")}`).join(" ");
}

const MAX_NAMED = 2;

/** `eu-1/host-3 GPU 0-3,6`, one host a line, and its rack where that is known. */
export function gpusText(
  gpus: readonly HostGpus[],
  racks: ReadonlyMap<HostGpus["host"], string> = new Map(),
): string {
  return gpus
    .map(({ host, mask }) => {
      const rack = racks.get(host);
      return `${host} GPU ${gpuList(mask)}${rack === undefined ? "" : `, rack ${rack}`}`;
    })
    .join("\n");
}
