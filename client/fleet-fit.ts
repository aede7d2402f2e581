/**
 * @file Refuses, before a job is submitted, what its fleet would not give it: for each GPU more processors or memory than a host has (to a fleet of
 * former rules, which does not count them, more than the share of a GPU), and notices to addresses that the fleet file does not list.
 *
 * Resources are judged at the full size of the gang, and only by hosts of which the fleet file states the amounts. What the others have is known to their
 * agents, which refuse by name; the console sends nothing to what its fleet file does not list. So nobody is asked for a job without either, and
 * a fleet that does not answer soon refuses nothing.
 */

import type { Client } from "@temporalio/client";
import type { ClusterShape, FleetShape, HostShape } from "../domain/fleet/fleet.ts";
import { amountText } from "../domain/job/job-resources.ts";
import { noticeRefusal } from "../domain/fleet/job-notices.ts";
import type { ParsedJob } from "../domain/job/job-file.ts";
import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import type { JobSpec } from "../domain/job/job.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { NEWEST_RULES, RESOURCE_RULES } from "../scheduling/ledger/ledger.ts";
import { presentLedger } from "./present-ledger.ts";

const GIB = 2 ** 30;
/** A worker that sleeps wakes in this time; nobody is to wait longer for a check that hosts make again. */
export const ANSWER_WITHIN_MS = 3_000;

/**
 * Throws BAD_INPUT with what is asked for and what there is. Resources of a job that other fleets may run are left to them; `onUnchecked` is called with
 * what was not compared where the fleet does not answer.
 */
export async function checkFit(
  client: Client,
  { spec, notices }: Pick<ParsedJob, "spec" | "notices">,
  { fleet, onUnchecked }: { readonly fleet: string; readonly onUnchecked?: (why: string) => void },
): Promise<void> {
  const asks = {
    resources: spec.run.resources !== undefined && spec.cells === undefined,
    notices: notices.length > 0,
  };
  if (!asks.resources && !asks.notices) return;
  const ledger = await ledgerSoon(client, fleet);
  if (ledger === undefined) {
    const why = `fleet ${fleet} does not answer`;
    if (asks.resources) onUnchecked?.(`resources were not compared with the hosts: ${why}`);
    if (asks.notices)
      onUnchecked?.(`addresses of notify were not compared with the fleet's: ${why}`);
    return;
  }
  const { shape, applyVersion } = ledger;
  const refusal =
    (asks.resources ? resourceRefusal(spec, shape, applyVersion) : undefined) ??
    noticeRefusal(notices, shape.noticeAddresses);
  if (refusal !== undefined) throw new OrbweaverError("BAD_INPUT", refusal);
}

/** Undefined where the fleet does not answer soon. */
export const ledgerSoon = (client: Client, fleet: string): Promise<PackedLedger | undefined> =>
  presentLedger(client, fleet, ANSWER_WITHIN_MS).catch(() => undefined);

/** Undefined where some host that the job may use can give it, or does not say what it has. `rules`: those of the fleet. */
export function resourceRefusal(
  { name, gang, constraints, run }: Pick<JobSpec, "name" | "gang" | "constraints" | "run">,
  { clusters }: Pick<FleetShape, "clusters">,
  rules: number = NEWEST_RULES,
): string | undefined {
  if (run.resources === undefined) return undefined;
  const isCounted = rules >= RESOURCE_RULES;
  const { per, cpus, memoryGiB } = run.resources;
  const sharers = per === "gpu" ? 1 : gang.gpus;
  const hosts = clusters.flatMap((cluster) =>
    cluster.hosts.filter((host) => isAllowed(constraints, cluster, host)),
  );
  for (const { key, need, has } of [
    { key: "cpus", need: cpus, has: (host: HostShape) => host.cpus },
    {
      key: "memoryBytes",
      need: memoryGiB && memoryGiB * GIB,
      has: (host: HostShape) => host.hostMemoryGiB && host.hostMemoryGiB * GIB,
    },
  ] as const) {
    if (need === undefined || hosts.length === 0) continue;
    const wanted = need / sharers;
    const shares = hosts.map((host) => ({
      host,
      most: (has(host) ?? Infinity) / (isCounted ? 1 : host.gpuCount),
    }));
    const [largest] = shares.sort((a, b) => b.most - a.most);
    if (largest === undefined || wanted <= largest.most) continue;
    const most = `${amountText(key, largest.most)} (${largest.host.id})`;
    const found = isCounted
      ? `the largest host of this fleet has ${most}`
      : `the largest share of one in this fleet is ${most}`;
    return `resources: ${name} needs ${amountText(key, wanted)} for each GPU, and ${found}. Ask for less, or for more GPUs.`;
  }
  return undefined;
}

const isAllowed = (
  { clusters, hosts, gpuTypes }: JobSpec["constraints"],
  cluster: Pick<ClusterShape, "id">,
  host: Pick<HostShape, "id" | "gpuType">,
): boolean =>
  (clusters?.includes(cluster.id) ?? true) &&
  (hosts?.includes(host.id) ?? true) &&
  (gpuTypes?.includes(host.gpuType) ?? true);
