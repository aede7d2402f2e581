/** @file What a fleet shows of itself: why a job waits or what it holds, and the summary in Temporal's UI. */

import type { PendingCode } from "../domain/codes.ts";
import type { HostId, JobId } from "../domain/ids.ts";
import { gpuCountOf } from "../domain/lease.ts";
import type { FleetAnswer } from "../domain/pending.ts";
import { isMassSilence } from "../scheduling/apply.ts";
import type { HostStanding, Ledger } from "../scheduling/ledger.ts";

export function explainJob(ledger: Ledger, id: string): FleetAnswer {
  const held = [...ledger.leases.values()].filter((lease) => lease.jobId === id);
  if (held.length > 0) return { kind: "leased", leases: held };
  const waiting = [...ledger.requests.values()];
  const position = waiting.findIndex((request) => request.jobId === id);
  const request = waiting[position];
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
    position: position + 1,
    waiting: waiting.length,
    requestedAtMs: request.requestedAtMs,
    reason,
  };
}

/** What ends when leases end. */
const WAITS_FOR_LEASES: ReadonlySet<PendingCode> = new Set([
  "WaitingForGpus",
  "WaitingForPower",
  "TopologyPlacementFailed",
  "BehindEarlierJob",
  "WaitingForPreempted",
]);

/** A job array asks this before it goes on with a lease that it has had for a while. */
export const othersWait = (ledger: Ledger, id: JobId): boolean =>
  [...ledger.reasons].some(([job, { code }]) => job !== id && WAITS_FOR_LEASES.has(code));

export function fleetSummary(name: string, ledger: Ledger, isRecovering: boolean): string {
  const all = ledger.shape.clusters.flatMap((cluster) => cluster.hosts);
  const gpuCount = all.reduce((sum, host) => sum + host.gpuCount, 0);
  const leased = [...ledger.leases.values()].reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0);
  const count = (is: (standing: HostStanding) => boolean): number =>
    all.filter(({ id }: { readonly id: HostId }) => {
      const standing = ledger.hosts.get(id);
      return standing !== undefined && is(standing);
    }).length;
  const silent = count(({ silentSinceMs }) => silentSinceMs !== undefined);
  const fenced = count(({ isFenced }) => isFenced === true);
  const answering = count(({ agent }) => agent !== undefined) - silent;
  const yielding = [...ledger.leases.values()].filter(({ eviction }) => eviction !== undefined);
  const apart = [...(ledger.reservations?.values() ?? [])];
  const troubles = [
    ...(yielding.length > 0 ? [`${yielding.length} leases are being given up for others`] : []),
    ...(apart.length > 0
      ? [
          `${apart.reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0)} GPUs are set apart for ${apart.length} jobs`,
        ]
      : []),
    ...(isRecovering ? ["recovering: agents and jobs are asked what there is"] : []),
    ...(silent > 0 ? [`${silent} hosts are silent`] : []),
    ...(fenced > 0 ? [`${fenced} hosts are fenced`] : []),
    ...(isMassSilence(ledger.hosts)
      ? ["so many silent at once are taken for an outage of ours: no clock fences them"]
      : []),
  ];
  return [
    `**Fleet ${name}**: ${leased} of ${gpuCount} GPUs leased, ${ledger.leases.size} leases, ${ledger.requests.size} requests waiting`,
    "",
    ...(troubles.length > 0 ? [`${troubles.join(" · ")}`, ""] : []),
    `${answering} of ${all.length} hosts have an agent · next token ${ledger.nextToken} · ${ledger.deadLetters.length} dead letters`,
  ].join("\n");
}
