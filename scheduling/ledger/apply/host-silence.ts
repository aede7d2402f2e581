/**
 * @file Hosts that do not answer: since when they are silent, and when their GPUs may be granted again.
 *
 * Silence is a suspicion, not proof. A silent host is offered nothing new and keeps its leases until its agent reports, an operator fences
 * it, or its fence time has passed; by then its agent has stopped everything. A fence counts every part of a lease on the host as confirmed
 * empty. When more than a fifth of the agents, and more than one, are silent at once, the outage is taken for ours: no clock fences a host
 * until the outage ends, and then the clocks restart.
 *
 * A ledger that was lost does not know its hosts until their agents report. One that never does may still hold leases, which their jobs have
 * asserted: its presence tells of its silence, and its clock runs as well, but never less than ten minutes, because nobody knows what its agent has
 * agreed to.
 * Cost: O(hosts) a check, O(leases) a fence. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { HostId } from "../../../domain/values/ids.ts";
import { noteChange, type LedgerTransaction } from "./transaction.ts";
import { setHost } from "./transaction-fleet.ts";
import { indexOf } from "./transaction-index.ts";
import { confirmVacated } from "./transaction-leases.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import { SILENT_STRANGERS_RULES, type HostStatus, type Ledger } from "../ledger.ts";
import { isMassSilence } from "./mass-silence.ts";

export { isMassSilence, MASS_SILENCE_SHARE } from "./mass-silence.ts";

export function applySilence(
  transaction: LedgerTransaction,
  { hosts, epoch }: Extract<InboxEntry, { kind: "silence" }>,
  nowMs: number,
): void {
  for (const host of hosts) {
    const status = transaction.hosts.get(host);
    if (status?.silentSinceMs !== undefined) continue;
    if (status?.agent?.epoch === epoch)
      setHost(transaction, host, { ...status, silentSinceMs: nowMs });
    else if (isStranger(transaction, host, { epoch, status }))
      setHost(transaction, host, {
        ...withoutSilence(status ?? { isDrained: false }),
        ...strangersTerms(transaction, host),
        lastEpoch: epoch,
        silentSinceMs: nowMs,
      });
    else continue;
    noteChange(transaction);
  }
}

/** The ledger has never heard of this agent: it knows none there, or an older one that was fenced or has ended. */
function isStranger(
  transaction: LedgerTransaction,
  host: HostId,
  { epoch, status }: { readonly epoch: string; readonly status: HostStatus | undefined },
): boolean {
  const { applyVersion } = transaction.before;
  if (applyVersion < SILENT_STRANGERS_RULES || status?.agent !== undefined) return false;
  if (!indexOf(transaction).places.has(host)) return false;
  const { lastEpoch, isFenced } = status ?? {};
  return lastEpoch === undefined ? isFenced !== true : lastEpoch < epoch;
}

function strangersTerms(transaction: LedgerTransaction, host: HostId): Pick<HostStatus, "fenceMs"> {
  const cluster = indexOf(transaction).places.get(host)?.cluster;
  if (cluster === undefined || cluster.onSilence === "hold") return {};
  return { fenceMs: Math.max(cluster.fenceMs ?? 0, STRANGERS_FENCE_MS) };
}

const STRANGERS_FENCE_MS = 600_000;

/** The same standing of a host that answers. */
export function withoutSilence(status: HostStatus): HostStatus {
  const { silentSinceMs: _silent, isFenced: _fenced, fencedAtMs: _at, ...rest } = status;
  return rest;
}

/** Nothing of what ran there counts any more; the host is offered again when an agent has reported. */
export function fenceHost(transaction: LedgerTransaction, host: HostId, nowMs: number): void {
  const status = transaction.hosts.get(host) ?? { isDrained: false };
  const { agent, fenceMs: _agreed, ...rest } = withoutSilence(status);
  const lastEpoch = agent?.epoch ?? rest.lastEpoch;
  if (status.isFenced !== true || agent !== undefined) {
    setHost(transaction, host, {
      ...rest,
      isFenced: true,
      fencedAtMs: nowMs,
      ...(lastEpoch !== undefined && { lastEpoch }),
    });
    noteChange(transaction);
  }
  for (const lease of [...transaction.leases.values()]) {
    if (lease.gpus.some((part) => part.host === host)) confirmVacated(transaction, lease, [host]);
  }
}

/** Fences the hosts whose time has come. */
export function fenceSilent(transaction: LedgerTransaction, nowMs: number): void {
  if (isMassSilence(transaction.hosts)) return;
  for (const [host, status] of [...transaction.hosts]) {
    const dueAtMs = fenceAtMs(status);
    if (dueAtMs !== undefined && dueAtMs <= nowMs) fenceHost(transaction, host, nowMs);
  }
}

/** When a clock next has to look; undefined when none runs. */
export function nextFenceAtMs({ hosts }: Pick<Ledger, "hosts">): number | undefined {
  if (isMassSilence(hosts)) return undefined;
  let nextAtMs: number | undefined;
  for (const status of hosts.values()) {
    const dueAtMs = fenceAtMs(status);
    if (dueAtMs !== undefined) nextAtMs = Math.min(nextAtMs ?? Infinity, dueAtMs);
  }
  return nextAtMs;
}

/** When the clock fences the host, should nothing change; undefined when it will not. */
export const fenceAtMs = ({ silentSinceMs, fenceMs }: HostStatus): number | undefined =>
  silentSinceMs === undefined || fenceMs === undefined ? undefined : silentSinceMs + fenceMs;

/** After an outage of ours the hosts that are still silent get their whole time. */
export function restartClocks(transaction: LedgerTransaction, nowMs: number): void {
  const wasMassSilent = transaction.wasMassSilent === true;
  transaction.wasMassSilent = undefined;
  if (!wasMassSilent || isMassSilence(transaction.hosts)) return;
  for (const [host, status] of transaction.hosts) {
    if (status.silentSinceMs === undefined) continue;
    setHost(transaction, host, { ...status, silentSinceMs: nowMs });
  }
  transaction.wasMassSilent = undefined;
}
