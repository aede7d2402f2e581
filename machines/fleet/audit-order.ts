/**
 * @file Chooses the jobs that an audit looks at, and lists the losses and sweeps that follow from the ledger.
 *
 * Pure functions of the ledger. Audits take the holders of leases and the waiting requests round robin. The head of the queue is in every
 * audit, because a dead job there keeps others waiting. A job has lost the parts of a held lease that lie on fenced hosts.
 * A vacating lease is swept on the hosts that have yet to confirm its end. Cost: O(ledger).
 */

import type { AuditOrder, Loss } from "../../protocol/control-contract.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { SweepInput } from "../../protocol/fleet.ts";

const MAX_HOLDERS = 1_000;
const MAX_REQUESTS = 200;
const MAX_DOUBTED = 1_000;
const HEAD_OF_QUEUE = 20;
/** Runs that were granted lately end most often; later their agents notice first. */
const PERIOD_MS = 30_000;
const QUIET_PERIOD_MS = 600_000;
const QUIET_AFTER_MS = 300_000;
const SUSPECT_PERIOD_MS = 1_000;

/** `from`: how many holders former audits looked at. */
export function auditOrder(ledger: Ledger, from: number): AuditOrder {
  const leases = [...ledger.leases.values()].filter(({ state }) => state !== "vacating");
  const held = new Map(leases.map(({ jobId, runId }) => [`${jobId} ${runId}`, { jobId, runId }]));
  const requests = [...ledger.requests.values()].map(({ jobId, runId }) => ({ jobId, runId }));
  const holders = [
    ...nextAmong([...held.values()], from, MAX_HOLDERS),
    ...requests.slice(0, HEAD_OF_QUEUE),
    ...nextAmong(requests, from, MAX_REQUESTS),
  ];
  const unique = new Map(holders.map((holder) => [`${holder.jobId} ${holder.runId}`, holder]));
  const isLookedAt = new Set(holders.map(({ jobId }) => jobId));
  const unclaimed = leases.filter(({ isUnconfirmed }) => isUnconfirmed === true);
  // Arrays alone deny; after a loss of the ledger every lease is unclaimed, and an order has room for some.
  const deniable = unclaimed.filter(
    ({ jobId, slots }) => slots !== undefined && isLookedAt.has(jobId),
  );
  const doubted = nextAmong(deniable, from, MAX_DOUBTED);
  return {
    holders: [...unique.values()],
    asked: [...new Set(unclaimed.map(({ jobId }) => jobId))],
    ...(doubted.length > 0 && {
      doubted: doubted.map(({ id, jobId }) => ({ jobId, lease: id })),
    }),
  };
}

/** The next items, round robin. */
function nextAmong<Item>(items: readonly Item[], from: number, most: number): readonly Item[] {
  if (items.length <= most) return items;
  const start = from % items.length;
  return [...items.slice(start), ...items.slice(0, start)].slice(0, most);
}

/** Pause before the next audit. `unchangedMs`: how long before the last audit the leases last changed; negative when they changed since. */
export function auditPeriodMs({ leases }: Ledger, unchangedMs: number): number {
  if (unchangedMs < 0 && [...leases.values()].some(isSuspect)) return SUSPECT_PERIOD_MS;
  return unchangedMs < QUIET_AFTER_MS ? PERIOD_MS : QUIET_PERIOD_MS;
}

/** An agent runs a lease that no job has claimed, or has seen the end of one that its job should have reported. */
const isSuspect = ({ isUnconfirmed, state, vacatedHosts }: Lease): boolean =>
  isUnconfirmed === true || (state !== "vacating" && vacatedHosts !== undefined);

export function lossesOf(ledger: Ledger): readonly Loss[] {
  return [...ledger.leases.values()].flatMap(({ id, jobId, runId, state, vacatedHosts = [] }) => {
    const fenced = vacatedHosts.filter((host) => ledger.hosts.get(host)?.isFenced === true);
    if (state === "vacating" || fenced.length === 0) return [];
    return [{ jobId, runId, lease: id, hosts: fenced }];
  });
}

export function sweepsOf(fleet: string, ledger: Ledger): readonly SweepInput[] {
  return [...ledger.leases.values()].flatMap(({ id, jobId, token, vacatingHosts }) =>
    vacatingHosts === undefined ? [] : [{ fleet, jobId, lease: id, token, hosts: vacatingHosts }],
  );
}
