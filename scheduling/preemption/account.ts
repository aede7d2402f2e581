/**
 * @file The account of one cycle's preemption: holdings, victims, the leases that the plan evicts and what that costs each tenant.
 *
 * Later requests of a cycle are judged after the grants and evictions that came before them.
 * Cost: O(leases + requests) to open, with the indexes of a live scheduler O(changes).
 */

import { DEFAULT_POLICY } from "../../domain/fleet/fleet.ts";
import type { HostGpus, Lease } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { JobId, LeaseId, TenantId } from "../../domain/values/ids.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import { holdingsNow, type HoldingsBook } from "../fairness/holdings-index.ts";
import { noteHeld, noteReleased, openHoldings, type Holdings } from "../fairness/holdings.ts";
import { spentBudget } from "../ledger/apply/apply-evictions.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { openVictimIndex, type VictimIndex } from "./candidate-index.ts";

/** Changed by the functions of this file alone. */
export interface PreemptionAccount {
  readonly ledger: Ledger;
  readonly nowMs: number;
  readonly holdings: Holdings;
  readonly victims: VictimIndex;
  /** Leases that the plan evicts. */
  readonly taken: Set<LeaseId>;
  /** GPU-seconds of others' work that the plan loses, by the tenant for whom. */
  readonly spent: Map<TenantId, number>;
  /** Jobs that the plan gives GPUs, instead of those that were reserved for them. */
  readonly served: Set<JobId>;
}

export interface PreemptionSources {
  readonly nowMs: number;
  /** Of a live scheduler; else holdings are counted anew. */
  readonly book?: HoldingsBook;
  /** The same of victims. */
  readonly victims?: VictimIndex;
}

/** Undefined where the fleet does not preempt. */
export function openPreemption(
  ledger: Ledger,
  { index, pools }: Capacity,
  { nowMs, book, victims }: PreemptionSources,
): PreemptionAccount | undefined {
  if (!(ledger.shape.policy ?? DEFAULT_POLICY).isPreempting) return undefined;
  const supplyGpus = pools.reduce((sum, { tallies }) => sum + tallies.idle.gpus, 0);
  const holdings =
    book !== undefined
      ? holdingsNow(book, ledger, supplyGpus)
      : openHoldings(ledger, index, supplyGpus);
  return {
    ledger,
    nowMs,
    holdings,
    victims: victims ?? openVictimIndex(ledger, index),
    taken: new Set(),
    spent: new Map(),
    served: new Set(),
  };
}

/** The cycle has granted these GPUs, or evicts others from them. */
export function noteGranted(
  { holdings, ledger, served }: PreemptionAccount,
  request: PendingRequest,
  gpus: readonly HostGpus[],
): void {
  const { jobId } = request;
  const own = ledger.reservations?.get(jobId);
  // What evictions have reserved for the job counts as held already; an array's further gangs come on top.
  if (own !== undefined && own.kind !== "backfill" && !served.has(jobId))
    noteReleased(holdings, request, own.gpus);
  served.add(jobId);
  noteHeld(holdings, request, gpus);
}

export interface Evicted {
  /** The beneficiary. */
  readonly by: PendingRequest;
  /** Its GPUs after the eviction. */
  readonly gpus: readonly HostGpus[];
  /** The victims and the GPUs with which each may go on. */
  readonly leases: readonly { readonly lease: Lease; readonly keep: readonly HostGpus[] }[];
  /** GPU-seconds. */
  readonly lost: number;
}

export function noteEvicted(account: PreemptionAccount, { by, gpus, leases, lost }: Evicted): void {
  const { holdings, taken } = account;
  for (const { lease, keep } of leases) {
    taken.add(lease.id);
    noteReleased(holdings, lease, lease.gpus);
    noteHeld(holdings, lease, keep);
  }
  noteGranted(account, by, gpus);
  noteLoss(account, by.tenant, lost);
}

/** Moved gangs hold as much as before, so only the loss counts. */
export function noteMoved(
  account: PreemptionAccount,
  tenant: TenantId,
  moves: readonly { readonly lease: Lease; readonly lostGpuSeconds: number }[],
): void {
  for (const { lease } of moves) account.taken.add(lease.id);
  noteLoss(
    account,
    tenant,
    moves.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0),
  );
}

/** The lease stops for its own sake, to start again with more GPUs. */
export function noteRestarted({ taken }: PreemptionAccount, { id }: Lease): void {
  taken.add(id);
}

/** Whether the tenant's budget allows so many lost GPU-seconds more. */
export function isAffordable(
  { ledger, nowMs, spent }: PreemptionAccount,
  tenant: TenantId,
  lost: number,
): boolean {
  const budget = (ledger.shape.policy ?? DEFAULT_POLICY).preemptionBudgetGpuSeconds;
  const before = spentBudget(ledger.evictions ?? [], tenant, nowMs) + (spent.get(tenant) ?? 0);
  return before + lost <= budget;
}

function noteLoss({ spent }: PreemptionAccount, tenant: TenantId, lost: number): void {
  spent.set(tenant, (spent.get(tenant) ?? 0) + lost);
}
