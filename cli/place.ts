/** @file Where a job runs or why it does not, in few words. */

import type { HostGpus, ListedJob } from "../client/index.ts";
import { gpuList } from "./gpu-list.ts";

/** `eu-1/host-3`, `eu-1/host-3,host-4`, `eu-1 (5 hosts)`, `eu-1,us-2 (9 hosts)`; for one that waits, the reason's code; `for infer-3` when it gives way. */
/** `fleet` is the one that is listed: of a job that went to another one, which. */
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

/** `eu-1/host-3 GPUs 0-3,6`, one host a line. */
export function gpusText(gpus: readonly HostGpus[]): string {
  return gpus.map(({ host, mask }) => `${host} GPU ${gpuList(mask)}`).join("\n");
}
