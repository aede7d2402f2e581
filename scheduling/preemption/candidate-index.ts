/**
 * @file Index of all leases that may be evicted, now or when their protected time is over, updated incrementally.
 *
 * By lease, by host, and by kind (flow and GPU type: rights are the same for all leases of one kind). Protected time and
 * losses are read off the clock when they are needed: the index is the same at any time.
 * Cost: O(leases) to open, O(hosts of the lease) a change.
 */

import type { HostId, LeaseId } from "../../domain/values/ids.ts";
import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import { evictableAtMs } from "./eviction-cost.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { FleetIndex } from "../ledger/rules/fleet-index.ts";
import { tenantFlow } from "../ledger/rules/flow.ts";
import { isSpared, type QueueHolds } from "../ledger/rules/queue-holds.ts";

export interface Victim {
  readonly lease: Lease;
  readonly gpus: number;
  /** From this time on it may be evicted. */
  readonly fromMs: number;
  /** Of its tenant in its class. */
  readonly flow: string;
  readonly kind: string;
}

/** Changes by `noteVictim` alone. */
export interface VictimIndex {
  readonly index: FleetIndex;
  /** Leases of parts that are held until what runs there has finished are no victims. */
  readonly holds: QueueHolds | undefined;
  readonly all: Map<LeaseId, Victim>;
  readonly byHost: Map<HostId, Victim[]>;
  readonly kinds: Map<string, Set<Victim>>;
}

export function openVictimIndex(
  { leases, holds }: Pick<Ledger, "leases" | "holds">,
  index: FleetIndex,
): VictimIndex {
  const book: VictimIndex = { index, holds, all: new Map(), byHost: new Map(), kinds: new Map() };
  for (const lease of leases.values()) noteVictim(book, undefined, lease);
  return book;
}

export function noteVictim(
  book: VictimIndex,
  before: Lease | undefined,
  after: Lease | undefined,
): void {
  const former = before && book.all.get(before.id);
  if (former !== undefined) {
    book.all.delete(former.lease.id);
    const alike = book.kinds.get(former.kind);
    alike?.delete(former);
    if (alike?.size === 0) book.kinds.delete(former.kind);
    for (const { host } of former.lease.gpus) removeFrom(book.byHost, host, former);
  }
  const isVictim = after !== undefined && !isSpared(book.holds, after);
  const fromMs = isVictim ? evictableAtMs(after) : Infinity;
  if (after === undefined || fromMs === Infinity) return;
  const [part] = after.gpus;
  const gpuType = part && book.index.places.get(part.host)?.host.gpuType;
  const flow = tenantFlow(after);
  const victim: Victim = {
    lease: after,
    gpus: gpuCountOf(after.gpus),
    fromMs,
    flow,
    kind: `${flow} ${gpuType}`,
  };
  book.all.set(after.id, victim);
  const alike = book.kinds.get(victim.kind);
  if (alike === undefined) book.kinds.set(victim.kind, new Set([victim]));
  else alike.add(victim);
  for (const { host } of after.gpus) {
    const there = book.byHost.get(host);
    if (there === undefined) book.byHost.set(host, [victim]);
    else there.push(victim);
  }
}

/** All of one flow, by kind. Cost: O(kinds). */
export function kindsIn({ kinds }: VictimIndex, flow: string): readonly ReadonlySet<Victim>[] {
  const found: ReadonlySet<Victim>[] = [];
  for (const alike of kinds.values()) {
    const [first] = alike;
    if (first?.flow === flow) found.push(alike);
  }
  return found;
}

/** When the protection of the next lease ends; infinite when none is protected. */
export function nextVictimAtMs({ all }: VictimIndex, nowMs: number): number {
  let nextMs = Infinity;
  for (const { fromMs } of all.values()) if (fromMs > nowMs && fromMs < nextMs) nextMs = fromMs;
  return nextMs;
}

/** The last victim fills the gap: their order has no meaning. */
function removeFrom(lists: Map<HostId, Victim[]>, host: HostId, victim: Victim): void {
  const list = lists.get(host);
  const at = list?.indexOf(victim) ?? -1;
  const last = list?.pop();
  if (list === undefined || last === undefined || at < 0) return;
  if (list.length === 0) lists.delete(host);
  else if (last !== victim) list[at] = last;
}
