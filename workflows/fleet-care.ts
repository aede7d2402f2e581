/**
 * @file What a fleet sees to beside its cycles: whose life an audit looks at, who is told of what was lost, what is swept.
 *
 * Pure functions of the ledger. An audit takes the holders of leases and the waiting requests in turns, the head of the line every time,
 * because a dead job there would keep others waiting. A job has lost the parts of a held lease on hosts that were fenced.
 * A vacating lease is swept on the hosts that it waits for. Cost: O(ledger).
 */

import type { Holder, Loss } from "../activities/control-contract.ts";
import type { JobId } from "../domain/ids.ts";
import type { Lease } from "../domain/lease.ts";
import type { Ledger } from "../scheduling/ledger.ts";
import type { SweepInput } from "./messages.ts";

const MAX_HOLDERS = 1_000;
const MAX_REQUESTS = 200;
const HEAD_OF_LINE = 20;
/** Runs that were granted lately end most often; later their agents notice first. */
const PERIOD_MS = 30_000;
const QUIET_PERIOD_MS = 600_000;
const QUIET_AFTER_MS = 300_000;
const SUSPECT_PERIOD_MS = 1_000;

export interface TurnOfAudit {
  readonly holders: readonly Holder[];
  /** Those whose leases are doubted. */
  readonly asked: readonly JobId[];
}

/** `from`: how many were looked at before. */
export function auditOrder(ledger: Ledger, from: number): TurnOfAudit {
  const leases = [...ledger.leases.values()].filter(({ state }) => state !== "vacating");
  const held = new Map(leases.map(({ jobId, runId }) => [`${jobId} ${runId}`, { jobId, runId }]));
  const requests = [...ledger.requests.values()].map(({ jobId, runId }) => ({ jobId, runId }));
  const turn = turnOf(requests, from, MAX_REQUESTS);
  const holders = [
    ...turnOf([...held.values()], from, MAX_HOLDERS),
    ...requests.slice(0, HEAD_OF_LINE),
    ...turn,
  ];
  const unique = new Map(holders.map((holder) => [`${holder.jobId} ${holder.runId}`, holder]));
  const asked = leases.filter(({ isDoubted }) => isDoubted === true).map(({ jobId }) => jobId);
  return { holders: [...unique.values()], asked: [...new Set(asked)] };
}

/** The next of the items, round and round. */
function turnOf<Item>(items: readonly Item[], from: number, most: number): readonly Item[] {
  if (items.length <= most) return items;
  const start = from % items.length;
  return [...items.slice(start), ...items.slice(0, start)].slice(0, most);
}

/** Pause before the next audit; `unchangedMs`: how long before the last one the leases had stayed as they were, negative when they changed since. */
export function auditPeriodMs({ leases }: Ledger, unchangedMs: number): number {
  if (unchangedMs < 0 && [...leases.values()].some(isSuspect)) return SUSPECT_PERIOD_MS;
  return unchangedMs < QUIET_AFTER_MS ? PERIOD_MS : QUIET_PERIOD_MS;
}

/** An agent runs what no job has claimed, or has seen the end of what its job should have seen. */
const isSuspect = ({ isDoubted, state, vacatedHosts }: Lease): boolean =>
  isDoubted === true || (state !== "vacating" && vacatedHosts !== undefined);

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
