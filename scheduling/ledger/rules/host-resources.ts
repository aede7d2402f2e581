/**
 * @file Processors and memory of hosts: what each GPU of a job takes, what leases have left, and how many GPUs of a job that leaves room for.
 *
 * A GPU takes its equal share of its host unless its job says how much; an amount that the fleet's description does not state is not
 * counted. So only leases that say how much they take are accounted for, by how much more or less than their shares they take: a host
 * without one costs nothing. Amounts are compared with a slack of `SLACK` of the host's, because shares are quotients.
 * The account of a host ends with its last such lease, so no error of rounding outlives them. Cost: O(1) each.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { HostShape } from "../../../domain/fleet/fleet.ts";
import type { GpuNeed } from "../../../domain/job/job-resources.ts";
import type { HostId } from "../../../domain/values/ids.ts";

export const RESOURCES = ["cpus", "memoryGiB"] as const;
export type Resource = (typeof RESOURCES)[number];

/** Of all of a host. */
const SLACK = 1e-9;

export type ResourceHost = Pick<HostShape, "id" | "gpuCount" | "cpus" | "hostMemoryGiB">;

/** Beyond the shares of their GPUs: below zero where they take less. */
interface Uneven {
  cpus: number;
  memoryGiB: number;
  /** GPUs of the leases that say what they take. */
  gpus: number;
}

/** Changes by `addUneven` alone. */
export type UnevenHosts = Map<HostId, Uneven>;

/** What the host has in all; undefined where nobody says. */
export const totalOf = ({ cpus, hostMemoryGiB }: ResourceHost, of: Resource): number | undefined =>
  of === "cpus" ? cpus : hostMemoryGiB;

/** What one GPU takes of an amount that the host states. */
const takenByGpu = (need: GpuNeed | undefined, of: Resource, share: number): number =>
  need?.[of] ?? share;

/** `gpus`: below zero when they are given back. */
export function addUneven(
  uneven: UnevenHosts,
  host: ResourceHost,
  { need, gpus }: { readonly need: GpuNeed; readonly gpus: number },
): void {
  if (RESOURCES.every((of) => totalOf(host, of) === undefined)) return;
  const account = uneven.get(host.id) ?? { cpus: 0, memoryGiB: 0, gpus: 0 };
  for (const of of RESOURCES) {
    const total = totalOf(host, of);
    if (total === undefined) continue;
    const share = total / host.gpuCount;
    account[of] += gpus * (takenByGpu(need, of, share) - share);
  }
  account.gpus += gpus;
  if (account.gpus > 0) uneven.set(host.id, account);
  else uneven.delete(host.id);
}

export interface ResourceQuestion {
  readonly need: GpuNeed | undefined;
  readonly uneven: UnevenHosts;
  /** GPUs of the host that leases hold, or that are kept with their shares for others. */
  readonly otherGpus: number;
}

export interface Shortage {
  readonly of: Resource;
  /** For each GPU. */
  readonly need: number;
  readonly left: number;
  readonly total: number;
}

/** The first amount of which the host has less left than so many GPUs of the job take. */
export function shortage(
  host: ResourceHost,
  gpus: number,
  question: ResourceQuestion,
): Shortage | undefined {
  for (const of of RESOURCES) {
    const each = eachOf(host, of, question);
    if (each !== undefined && gpus * each.need > each.left + each.total * SLACK)
      return { of, ...each };
  }
  return undefined;
}

/** The most GPUs of the job for which the host has enough left, whether so many are free or not. */
export function gpusWithinResources(host: ResourceHost, question: ResourceQuestion): number {
  let most = host.gpuCount;
  for (const of of RESOURCES) {
    const each = eachOf(host, of, question);
    if (each === undefined || each.need <= 0) continue;
    most = Math.min(most, Math.floor((each.left + each.total * SLACK) / each.need));
  }
  return Math.max(0, most);
}

/** How many GPUs of the host go with one of the job: 1, or more where it takes more than its share of an amount. */
export function sharesOfGpu(host: ResourceHost, need: GpuNeed): number {
  let most = 1;
  for (const of of RESOURCES) {
    const total = totalOf(host, of);
    const own = need[of];
    if (total !== undefined && own !== undefined && total > 0)
      most = Math.max(most, (own * host.gpuCount) / total);
  }
  return most;
}

function eachOf(
  host: ResourceHost,
  of: Resource,
  { need, uneven, otherGpus }: ResourceQuestion,
): Omit<Shortage, "of"> | undefined {
  const total = totalOf(host, of);
  if (total === undefined) return undefined;
  const share = total / host.gpuCount;
  const beyond = uneven.get(host.id)?.[of] ?? 0;
  return { need: takenByGpu(need, of, share), left: total - otherGpus * share - beyond, total };
}

/** Whether the host has as much in all as one GPU of the job takes. */
export const hasEnough = (host: ResourceHost, need: GpuNeed): boolean =>
  RESOURCES.every((of) => (need[of] ?? 0) <= (totalOf(host, of) ?? Infinity) * (1 + SLACK));
