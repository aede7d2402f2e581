/**
 * @file Applies drains of hosts and of single GPUs, and their ends. What runs there goes on.
 *
 * Cost: O(hosts named). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { HostGpus } from "../../../domain/lease/lease.ts";
import type { HostId } from "../../../domain/values/ids.ts";
import { fullMask } from "../../../lib/bits.ts";
import type { HostStatus } from "../ledger.ts";
import { withGpuDrain, withoutGpuDrains, type GpuDrain } from "../rules/gpu-drains.ts";
import { putStatus } from "./apply-inbox.ts";
import { refuse, type LedgerTransaction } from "./transaction.ts";
import { indexOf } from "./transaction-index.ts";
import { isRoomForHost } from "./transaction-size.ts";

/** From `BOUNDED_RULES` on: every drained host has one. */
const DRAIN_REASON_CHARACTERS = 500;
/** A host may have one for each of its GPUs. */
const GPU_REASON_CHARACTERS = 200;

/** Of several hosts alike; those that the fleet lacks are refused. */
export function drainHosts(
  transaction: LedgerTransaction,
  hosts: readonly HostId[],
  reason: string,
): void {
  for (const host of knownHosts(transaction, hosts)) drain(transaction, host, reason);
}

export function undrainHosts(transaction: LedgerTransaction, hosts: readonly HostId[]): void {
  for (const host of knownHosts(transaction, hosts)) {
    const status = transaction.hosts.get(host);
    if (status === undefined || !status.isDrained) continue;
    putStatus(transaction, host, { ...withoutReason(status), isDrained: false });
  }
}

export function drainGpus(
  transaction: LedgerTransaction,
  gpus: readonly HostGpus[],
  reason: string,
): void {
  const { places } = indexOf(transaction);
  const drain = { reason: reason.slice(0, GPU_REASON_CHARACTERS), sinceMs: transaction.nowMs };
  for (const { host, mask: named } of knownParts(transaction, gpus)) {
    const mask = named & fullMask(places.get(host)?.host.gpuCount ?? 0);
    if (mask === 0) continue;
    const status = transaction.hosts.get(host) ?? { isDrained: false };
    const { gpuDrains: former = [] } = status;
    const drains = withGpuDrain(former, { ...drain, mask });
    if (drains === former) continue;
    const drained = withGpuDrains(status, drains);
    putStatus(
      transaction,
      host,
      // The reason gives way; the drain does not.
      isRoomForHost(transaction, host, drained)
        ? drained
        : withGpuDrains(status, withGpuDrain(former, { ...drain, mask, reason: "" })),
    );
  }
}

export function undrainGpus(transaction: LedgerTransaction, gpus: readonly HostGpus[]): void {
  for (const { host, mask } of knownParts(transaction, gpus)) {
    const status = transaction.hosts.get(host);
    if (status?.gpuDrains?.some((drain) => (drain.mask & mask) !== 0) !== true) continue;
    putStatus(transaction, host, withGpuDrains(status, withoutGpuDrains(status.gpuDrains, mask)));
  }
}

/** The named hosts that the fleet has; the others are refused. */
export function knownHosts(
  transaction: LedgerTransaction,
  hosts: readonly HostId[],
): readonly HostId[] {
  const { places } = indexOf(transaction);
  return hosts.filter((host) => {
    if (places.has(host)) return true;
    refuse(transaction, "HostUnknown", `the fleet has no host ${host}`);
    return false;
  });
}

function knownParts(
  transaction: LedgerTransaction,
  gpus: readonly HostGpus[],
): readonly HostGpus[] {
  const known = new Set(
    knownHosts(
      transaction,
      gpus.map(({ host }) => host),
    ),
  );
  return gpus.filter(({ host }) => known.has(host));
}

function drain(transaction: LedgerTransaction, host: HostId, drainReason: string): void {
  const status = transaction.hosts.get(host);
  if (status?.isDrained === true && status.drainReason === drainReason) return;
  const drained = { ...status, isDrained: true };
  const isCut = transaction.size !== undefined;
  const withReason = {
    ...drained,
    drainReason: isCut ? drainReason.slice(0, DRAIN_REASON_CHARACTERS) : drainReason,
  };
  // The reason gives way; the drain does not.
  putStatus(
    transaction,
    host,
    isRoomForHost(transaction, host, withReason) ? withReason : withoutReason(drained),
  );
}

function withoutReason(status: HostStatus): HostStatus {
  const { drainReason: _former, ...rest } = status;
  return rest;
}

function withGpuDrains(status: HostStatus, gpuDrains: readonly GpuDrain[]): HostStatus {
  const { gpuDrains: _former, ...rest } = status;
  return gpuDrains.length === 0 ? rest : { ...rest, gpuDrains };
}
