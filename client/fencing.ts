/**
 * @file The effect of fencing hosts by hand: which hosts are meant, whether one of them still answers, and which leases end.
 *
 * Pure: reads only the given ledger. The ledger knows of silence only after the cluster's silence time (fleet.yaml), so a host
 * that was switched off a moment ago still counts as answering. Cost: O(hosts + GPU sets in leases).
 */

import { OrbweaverError } from "../domain/values/failure.ts";
import { DEFAULT_SILENCE_MS } from "../domain/fleet/fleet.ts";
import type { HostId, JobId, LeaseId } from "../domain/values/ids.ts";
import { popCount } from "../domain/lease/lease.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";

export interface FenceOptions {
  /** Fences even hosts whose agents answer. */
  readonly isForced?: boolean;
}

export interface FencedHost {
  readonly host: HostId;
  /** Nothing has changed. */
  readonly wasFenced: boolean;
  /** As far as the fleet knows, its agent answers, so its runs continue until they are stopped. */
  readonly wasAnswering: boolean;
  /** GPUs of the leases below, on this host. */
  readonly gpus: number;
  readonly leases: readonly FencedLease[];
}

export interface FencedLease {
  readonly lease: LeaseId;
  readonly jobId: JobId;
  /** On this host. */
  readonly gpus: number;
  /**
   * `moves`: the run ends without being charged, and the job requests GPUs again. `freed`: the job has ended and its lease only
   * waited for the host's confirmation.
   */
  readonly becomes: "moves" | "freed";
}

/** The hosts that `<cluster>/<host>` and cluster names denote, in the fleet's order. */
export function hostsNamed(
  { shape }: Pick<Ledger, "shape">,
  names: readonly string[],
  fleet: string,
): readonly HostId[] {
  const wanted = new Set(names);
  const known = new Set<string>();
  const hosts = shape.clusters.flatMap((cluster) => {
    known.add(cluster.id);
    return cluster.hosts.flatMap(({ id }) => {
      known.add(id);
      return wanted.has(id) || wanted.has(cluster.id) ? [id] : [];
    });
  });
  const unknown = [...wanted].filter((name) => !known.has(name));
  if (unknown.length > 0) {
    throw new OrbweaverError(
      "NOT_FOUND",
      `fleet ${fleet} has no host and no cluster ${unknown.join(", ")}; hosts are named cluster/host, see \`orbweaver fleet show\``,
    );
  }
  return hosts;
}

/** The effect of a fence on each host. */
export function fenceAccount(ledger: Ledger, hosts: readonly HostId[]): readonly FencedHost[] {
  const leases = new Map<HostId, FencedLease[]>(hosts.map((host) => [host, []]));
  for (const { id, jobId, gpus, state, vacatingHosts, vacatedHosts } of ledger.leases.values()) {
    for (const { host, mask } of gpus) {
      const isOver = state === "vacating";
      const isOpen = isOver ? vacatingHosts?.includes(host) : !vacatedHosts?.includes(host);
      if (isOpen === false) continue;
      const becomes = isOver ? "freed" : "moves";
      leases.get(host)?.push({ lease: id, jobId, gpus: popCount(mask), becomes });
    }
  }
  return [...leases].map(([host, ofHost]) => {
    const status = ledger.hosts.get(host);
    return {
      host,
      wasFenced: status?.isFenced === true,
      wasAnswering: status?.agent !== undefined && status.silentSinceMs === undefined,
      gpus: ofHost.reduce((sum, { gpus }) => sum + gpus, 0),
      leases: ofHost,
    };
  });
}

/** Fencing a host that answers would let its jobs start elsewhere while they run. */
export function refuseAnswering(
  { shape }: Pick<Ledger, "shape">,
  account: readonly FencedHost[],
): void {
  const answering = account.filter(({ wasAnswering }) => wasAnswering).map(({ host }) => host);
  if (answering.length === 0) return;
  const named = answering.slice(0, MAX_NAMED).join(", ");
  const more = answering.length > MAX_NAMED ? ` and ${answering.length - MAX_NAMED} more` : "";
  const silences = shape.clusters
    .filter(({ hosts }) => hosts.some(({ id }) => answering.includes(id)))
    .map(({ silenceMs = DEFAULT_SILENCE_MS }) => silenceMs / 1_000);
  throw new OrbweaverError(
    "NOT_ALLOWED",
    `no host was fenced: the agent of ${named}${more} answered within the last ${Math.max(...silences)} s. If the machine is off, wait that long or use --force; if it runs, drain it with \`orbweaver drain\`.`,
  );
}

const MAX_NAMED = 5;
