/**
 * @file Answers questions about a fleet from its state: what a job holds or why it waits, the fleet's clusters and terms, the summary in
 * Temporal's UI.
 *
 * Pure functions; a query never changes the state. Cost: O(ledger) a question.
 */

import { DEFAULT_FENCE_MS, DEFAULT_SILENCE_MS, type FleetShape } from "../../domain/fleet/fleet.ts";
import type { PendingCode } from "../../domain/values/codes.ts";
import { tokenOf, type ClusterId, type JobId, type LeaseId } from "../../domain/values/ids.ts";
import { queueName } from "../../domain/lease/queue-part.ts";
import { gpuCountOf, type Reservation } from "../../domain/lease/lease.ts";
import type { FleetAnswer } from "../../domain/lease/pending.ts";
import { isMassSilence } from "../../scheduling/ledger/apply/apply.ts";
import { isOwnToken, isRecovering } from "../../scheduling/ledger/apply/ledger-recovery.ts";
import type { HostStatus, Ledger } from "../../scheduling/ledger/ledger.ts";
import type { ClusterDescription, SilenceTerms } from "../../protocol/fleet.ts";
import { clusterNamed } from "./orders.ts";
import { sumOf } from "../../scheduling/ledger/rules/places.ts";
import type { FleetState } from "./state.ts";

export function explainJob(ledger: Ledger, id: string): FleetAnswer {
  const held = [...ledger.leases.values()].filter((lease) => lease.jobId === id);
  if (held.length > 0) return { kind: "leased", leases: held };
  const request = [...ledger.requests.values()].find(({ jobId }) => jobId === id);
  if (request === undefined) return { kind: "unknown" };
  const reason = ledger.reasons.get(request.jobId) ?? {
    code: "PendingEvaluation" as const,
    message: `${id} has not been looked at yet`,
    numbers: {},
    holders: [],
    wakeOn: ["timer" as const],
  };
  return {
    kind: "waiting",
    waiting: ledger.requests.size,
    requestedAtMs: request.requestedAtMs,
    reason,
  };
}

/** Whether a lease is there, be it only that hosts have yet to confirm its end. While a fleet recovers, one that the lost ledger gave may be there as well. */
export const mayHaveLease = (ledger: Ledger, id: LeaseId, nowMs: number): boolean =>
  ledger.leases.has(id) || (isRecovering(ledger, nowMs) && !isOwnToken(ledger, tokenOf(id)));

/** Reasons that the end of a lease may remove. */
const WAITS_FOR_LEASES: ReadonlySet<PendingCode> = new Set([
  "WaitingForGpus",
  "WaitingForPower",
  "WaitingForResources",
  "TopologyPlacementFailed",
  "BehindEarlierJob",
  "WaitingForPreempted",
  "WaitingForReplacement",
]);

/** Whether jobs other than this one wait for leases to end. A job array asks before it keeps an old lease for its next batch. */
export const othersWait = (ledger: Ledger, id: JobId): boolean =>
  [...ledger.reasons].some(([job, { code }]) => job !== id && WAITS_FOR_LEASES.has(code));

/** The facts about a cluster that a model of its bandwidth needs; null when the fleet has no such cluster. */
export function clusterDescription(
  { shape, detailsHash }: Pick<Ledger, "shape" | "detailsHash">,
  name: string,
): ClusterDescription | null {
  const cluster = clusterNamed(shape, name);
  if (cluster === undefined) return null;
  return { cluster, ...(detailsHash !== undefined && { detailsHash }) };
}

/** The part of a fleet that consists of these clusters and the links between them. */
export function shapeOf({ clusters, links }: FleetShape, names: readonly string[]): FleetShape {
  const isNamed = (id: ClusterId): boolean => names.includes(id);
  return {
    clusters: clusters.filter(({ id }) => isNamed(id)),
    links: links.filter(({ from, to }) => isNamed(from) && isNamed(to)),
    tenants: [],
  };
}

/** Null when the fleet has no such cluster. */
export function silenceTermsOf(shape: FleetShape, cluster: string): SilenceTerms | null {
  const found = clusterNamed(shape, cluster);
  if (found === undefined) return null;
  const { silenceMs = DEFAULT_SILENCE_MS, fenceMs = DEFAULT_FENCE_MS, onSilence = "fence" } = found;
  return { silenceMs, fenceMs, onSilence };
}

/** Markdown. */
export function fleetSummary({ name, ledger, recovery }: FleetState): string {
  const hosts = ledger.shape.clusters.flatMap((cluster) => cluster.hosts);
  const leases = [...ledger.leases.values()];
  const gpuCount = hosts.reduce((sum, host) => sum + host.gpuCount, 0);
  const leased = leases.reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0);
  const statuses = hosts.flatMap(({ id }) => ledger.hosts.get(id) ?? []);
  const answering = statuses.filter(
    ({ agent, silentSinceMs }) => agent !== undefined && silentSinceMs === undefined,
  );
  const troubles = [
    ...[...(ledger.holds?.values() ?? [])].map(
      ({ queue, by }) => `${queueName(queue)} is held by ${by}`,
    ),
    ...intakeTroubles(ledger),
    ...leaseTroubles(ledger),
    ...(recovery.quietUntilMs === Infinity
      ? ["recovering: asking agents and jobs for leases"]
      : []),
    ...hostTroubles(ledger, statuses),
  ];
  return [
    `**Fleet ${name}**: ${leased} of ${gpuCount} GPUs leased, ${leases.length} leases, ${ledger.requests.size} requests waiting`,
    "",
    ...(troubles.length > 0 ? [troubles.join(" · "), ""] : []),
    `${answering.length} of ${hosts.length} hosts have an agent · next token ${ledger.nextToken} · ${ledger.deadLetters.length} dead letters`,
  ].join("\n");
}

function intakeTroubles({ intake }: Ledger): readonly string[] {
  const lobbies = [...(intake?.lobbies.values() ?? [])];
  const outside = lobbies.reduce((sum, { waiting }) => sum + sumOf(waiting), 0);
  return outside > 0 ? [`${outside} jobs wait outside in ${lobbies.length} lobbies`] : [];
}

function leaseTroubles({ leases, reservations = new Map() }: Ledger): readonly string[] {
  const evicted = [...leases.values()].filter(({ eviction }) => eviction !== undefined).length;
  const kept = [...reservations.values()].filter(({ kind }) => kind === "replace");
  const reserved = [...reservations.values()].filter(({ kind }) => kind !== "replace");
  const sumOver = (some: readonly Reservation[]): number =>
    some.reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0);
  return [
    ...(evicted > 0 ? [`${evicted} leases are being evicted`] : []),
    ...(reserved.length > 0
      ? [`${sumOver(reserved)} GPUs are reserved for ${reserved.length} jobs`]
      : []),
    ...(kept.length > 0
      ? [`${sumOver(kept)} GPUs are kept for ${kept.length} jobs that have lost a host`]
      : []),
  ];
}

function hostTroubles({ hosts }: Ledger, statuses: readonly HostStatus[]): readonly string[] {
  const silent = statuses.filter(({ silentSinceMs }) => silentSinceMs !== undefined).length;
  const fenced = statuses.filter(({ isFenced }) => isFenced === true).length;
  return [
    ...(silent > 0 ? [`${silent} hosts are silent`] : []),
    ...(fenced > 0 ? [`${fenced} hosts are fenced`] : []),
    ...(isMassSilence(hosts)
      ? [
          "too many hosts are silent at once: no clock fences them, because the outage may be our own",
        ]
      : []),
  ];
}
