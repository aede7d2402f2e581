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
 * An agent may announce itself, take the place of the one that the ledger knows, and fall silent before it has reported: that is the host's silence
 * all the same, because nobody watches the older agent any more (rules 5). Its clock is no shorter than a stranger's. A copy of its registration that
 * comes after that is late (rules 7), also where the host was silent before; its silence then lasts since the older agent's.
 *
 * What a presence tells may arrive twice, late and out of order; each word says when it was told, and one that is not newer than the last that
 * counted for the same agent changes nothing (rules 5). Without that a silence that a frozen worker held up would take a host for silent that has
 * answered since, whose presence would never tell it again.
 * Cost: O(hosts) a check, O(leases) a fence, and a silence of a fenced host. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { HostId } from "../../../domain/values/ids.ts";
import { noteChange, type LedgerTransaction } from "./transaction.ts";
import { setHost } from "./transaction-fleet.ts";
import { indexOf } from "./transaction-index.ts";
import { confirmVacated } from "./transaction-leases.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import {
  ORDERED_PRESENCE_RULES,
  SILENT_STRANGERS_RULES,
  SILENT_SUCCESSORS_RULES,
  type HostStatus,
  type Ledger,
} from "../ledger.ts";
import { isMassSilence } from "./mass-silence.ts";

export { isMassSilence, MASS_SILENCE_SHARE } from "./mass-silence.ts";

export function applySilence(
  transaction: LedgerTransaction,
  { hosts, epoch, toldAtMs }: Extract<InboxEntry, { kind: "silence" }>,
  nowMs: number,
): void {
  for (const host of hosts) {
    const status = transaction.hosts.get(host);
    if (isOvertaken(status, { epoch, toldAtMs })) continue;
    const dated = toldAtMs === undefined ? {} : { toldAtMs };
    if (status?.silentSinceMs !== undefined) {
      if (!isSuccessorOfSilent(transaction, status, epoch)) continue;
      const { fenceMs } = status;
      setHost(transaction, host, {
        ...status,
        ...dated,
        ...(fenceMs !== undefined && strangersTerms(transaction, host, fenceMs)),
        lastEpoch: epoch,
      });
    } else if (status?.agent?.epoch === epoch)
      setHost(transaction, host, { ...status, ...dated, silentSinceMs: nowMs });
    else if (isSuccessor(transaction, status?.agent?.epoch, epoch)) {
      const { fenceMs, ...known } = status ?? { isDrained: false };
      setHost(transaction, host, {
        ...known,
        ...dated,
        ...(fenceMs !== undefined && strangersTerms(transaction, host, fenceMs)),
        ...(transaction.before.applyVersion >= SILENT_SUCCESSORS_RULES && { lastEpoch: epoch }),
        silentSinceMs: nowMs,
      });
    } else if (isStranger(transaction, host, { epoch, status, isDated: toldAtMs !== undefined }))
      setHost(transaction, host, {
        ...withoutSilence(status ?? { isDrained: false }),
        ...strangersTerms(transaction, host),
        lastEpoch: epoch,
        silentSinceMs: nowMs,
        ...dated,
      });
    else continue;
    noteChange(transaction);
  }
}

/** Whether a later word of the same agent has counted already, or this one has. Words without a date count whenever they come. */
export function isOvertaken(
  status: HostStatus | undefined,
  { epoch, toldAtMs }: { readonly epoch: string; readonly toldAtMs?: number | undefined },
): boolean {
  if (status?.toldAtMs === undefined || toldAtMs === undefined) return false;
  return newestEpochOf(status) === epoch && toldAtMs <= status.toldAtMs;
}

/** Of its agent, or of a later one that it has heard of. Undefined where it has heard of none. */
export function newestEpochOf({ agent, lastEpoch }: HostStatus): string | undefined {
  if (agent === undefined || lastEpoch === undefined) return agent?.epoch ?? lastEpoch;
  return agent.epoch < lastEpoch ? lastEpoch : agent.epoch;
}

/**
 * The ledger has never heard of this agent: it knows none there, or an older one that was fenced or has ended. After a loss it may remember a fence
 * from before and have heard of leases there since: nobody else would ever say that these are gone (rules 5).
 */
function isStranger(
  transaction: LedgerTransaction,
  host: HostId,
  {
    epoch,
    status,
    isDated,
  }: {
    readonly epoch: string;
    readonly status: HostStatus | undefined;
    readonly isDated: boolean;
  },
): boolean {
  const { applyVersion } = transaction.before;
  if (applyVersion < SILENT_STRANGERS_RULES || status?.agent !== undefined) return false;
  if (!indexOf(transaction).places.has(host)) return false;
  const { lastEpoch, isFenced } = status ?? {};
  if (isDated && isFenced === true && (lastEpoch ?? epoch) === epoch)
    return holdsMore(transaction, host);
  return lastEpoch === undefined ? isFenced !== true : lastEpoch < epoch;
}

/** The agent comes after the one that the ledger knows. */
const isSuccessor = (
  { before }: LedgerTransaction,
  known: string | undefined,
  epoch: string,
): boolean => before.applyVersion >= ORDERED_PRESENCE_RULES && known !== undefined && known < epoch;

/** The agent comes after all that the ledger has heard of on this host, which is silent already (rules 7). */
function isSuccessorOfSilent(
  { before }: LedgerTransaction,
  status: HostStatus,
  epoch: string,
): boolean {
  const known = newestEpochOf(status);
  return before.applyVersion >= SILENT_SUCCESSORS_RULES && known !== undefined && known < epoch;
}

/** Whether leases wait for a fenced host: its fence has confirmed those of its time. */
function holdsMore({ before, leases }: LedgerTransaction, host: HostId): boolean {
  if (before.applyVersion < ORDERED_PRESENCE_RULES) return false;
  return [...leases.values()].some(
    ({ gpus, vacatedHosts = [], vacatingHosts = gpus.map((part) => part.host) }) =>
      vacatingHosts.includes(host) && !vacatedHosts.includes(host),
  );
}

/** `knownMs`: what an earlier agent of the host has agreed to. */
function strangersTerms(
  transaction: LedgerTransaction,
  host: HostId,
  knownMs = 0,
): Pick<HostStatus, "fenceMs"> {
  const cluster = indexOf(transaction).places.get(host)?.cluster;
  if (cluster === undefined || cluster.onSilence === "hold") return {};
  return { fenceMs: Math.max(knownMs, cluster.fenceMs ?? 0, STRANGERS_FENCE_MS) };
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
  const lastEpoch = newestEpochOf(status);
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
