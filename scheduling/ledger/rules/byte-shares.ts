/**
 * @file Bytes of a fleet's requests by share of tenants: what is guaranteed to each share, what it uses, and what others leave free for it.
 *
 * Of the bytes that requests can have in all, `GUARANTEED_BYTES` is guaranteed: to each tenant that the fleet file names by weight, to all
 * others together with weight 1 (the shares of places.ts). A share uses what its requests would take in a ledger of their own, so a list that
 * two shares name counts in both. What is guaranteed and not used is withheld from the others:  Σ max(0, guaranteed − used).
 * Cost: O(requests) from scratch, O(1) a change. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import type { TenantId } from "../../../domain/values/ids.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { OTHER_TENANTS } from "../intake.ts";
import type { Ledger } from "../ledger.ts";
import { openSize, rowBytes, sizeRequest, type Change } from "../size-account.ts";
import type { SizeAccount } from "../size-state.ts";
import { weightsOf } from "./places.ts";

export const GUARANTEED_BYTES = 0.1;

export interface ByteShares {
  readonly applyVersion: number;
  /** In whole bytes. */
  readonly guaranteed: ReadonlyMap<TenantId, number>;
  /** Of the requests of each share, as if there were no others. */
  readonly used: Map<TenantId, SizeAccount>;
  /** From a tenant that had no share. */
  withheld: number;
}

interface ByteSharesOf extends Pick<Ledger, "applyVersion"> {
  readonly shape: Pick<FleetShape, "tenants">;
}

/** `bytes`: what requests can have in all. */
export function openByteShares(
  { shape: { tenants }, applyVersion }: ByteSharesOf,
  bytes: number,
  requests: Iterable<PendingRequest>,
): ByteShares {
  const { weights, weightSum } = weightsOf(tenants);
  const guaranteed = new Map<TenantId, number>();
  for (const [tenant, weight] of weights)
    guaranteed.set(tenant, Math.floor((GUARANTEED_BYTES * bytes * weight) / weightSum));
  const withheld = [...guaranteed.values()].reduce((sum, each) => sum + each, 0);
  const shares: ByteShares = { applyVersion, guaranteed, used: new Map(), withheld };
  for (const after of requests) countBytes(shares, { after });
  return shares;
}

/** Of one request; a former one may be another tenant's. */
export function countBytes(shares: ByteShares, of: Change<PendingRequest>): void {
  const { before, after } = of;
  if (after !== undefined) countRow(shares, after, { after });
  if (before !== undefined) countRow(shares, before, { before });
}

function countRow(
  shares: ByteShares,
  { tenant }: PendingRequest,
  of: Change<PendingRequest>,
): void {
  const share = shareFor(shares, tenant);
  const account = shares.used.get(share) ?? openSize(NOTHING, shares.applyVersion);
  shares.used.set(share, account);
  shares.withheld -= unusedBytes(shares, share);
  sizeRequest(account, of);
  shares.withheld += unusedBytes(shares, share);
}

/** A request refers to nothing in a fleet's description. */
const NOTHING: Parameters<typeof openSize>[0] = {
  shape: { clusters: [], links: [], tenants: [] },
  requests: new Map(),
  reasons: new Map(),
  leases: new Map(),
  hosts: new Map(),
  outbox: new Map(),
};

export const shareFor = ({ guaranteed }: ByteShares, tenant: TenantId): TenantId =>
  guaranteed.has(tenant) ? tenant : OTHER_TENANTS;

/** Guaranteed to the tenant's share and not used. */
export function unusedBytes(shares: ByteShares, tenant: TenantId): number {
  const share = shareFor(shares, tenant);
  return Math.max(0, (shares.guaranteed.get(share) ?? 0) - usedBytes(shares.used.get(share)));
}

const usedBytes = (account: SizeAccount | undefined): number =>
  account === undefined ? 0 : rowBytes(account) + account.flows.bytes();

/** How many further requests would use up what is guaranteed, if they are like those inside and have `leastBytes` at least. */
export function unusedCount(shares: ByteShares, share: TenantId, leastBytes: number): number {
  const account = shares.used.get(share);
  const usual = usedBytes(account) / Math.max(1, account?.requests ?? 0);
  return Math.ceil(unusedBytes(shares, share) / Math.max(leastBytes, usual));
}

/** Of the other shares. */
export const withheldFrom = (shares: ByteShares, tenant: TenantId): number =>
  shares.withheld - unusedBytes(shares, tenant);
