/**
 * @file All leases that may be taken from their jobs, now or when their protected time is over, kept up to date by what changes.
 *
 * By lease, by host, and by kind (flow and GPU type: for all of one kind rights are the same). Whose protected time is over, and
 * what a loss would be, is asked of the clock when it is needed: a book is the same at any time.
 * Cost: O(leases) to open, O(hosts of the lease) a change.
 */

import type { HostId, LeaseId } from "../domain/ids.ts";
import { gpuCountOf, type Lease } from "../domain/lease.ts";
import { evictableAtMs } from "./evictable.ts";
import type { FleetIndex } from "./fleet-index.ts";
import { tenantFlow } from "./queue/flow.ts";

export interface Victim {
  readonly lease: Lease;
  readonly gpus: number;
  /** From then on it may be taken. */
  readonly fromMs: number;
  readonly kind: string;
}

/** Changes by `noteVictim` alone. */
export interface VictimBook {
  readonly index: FleetIndex;
  readonly all: Map<LeaseId, Victim>;
  readonly byHost: Map<HostId, Victim[]>;
  readonly kinds: Map<string, Set<Victim>>;
}

export function openVictimBook(leases: Iterable<Lease>, index: FleetIndex): VictimBook {
  const book: VictimBook = { index, all: new Map(), byHost: new Map(), kinds: new Map() };
  for (const lease of leases) noteVictim(book, undefined, lease);
  return book;
}

export function noteVictim(
  book: VictimBook,
  before: Lease | undefined,
  after: Lease | undefined,
): void {
  const former = before && book.all.get(before.id);
  if (former !== undefined) {
    book.all.delete(former.lease.id);
    const alike = book.kinds.get(former.kind);
    alike?.delete(former);
    if (alike?.size === 0) book.kinds.delete(former.kind);
    for (const { host } of former.lease.gpus) takeOff(book.byHost, host, former);
  }
  const fromMs = after === undefined ? Infinity : evictableAtMs(after);
  if (after === undefined || fromMs === Infinity) return;
  const [part] = after.gpus;
  const gpuType = part && book.index.places.get(part.host)?.host.gpuType;
  const victim: Victim = {
    lease: after,
    gpus: gpuCountOf(after.gpus),
    fromMs,
    kind: `${tenantFlow(after)} ${gpuType}`,
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

/** When the next lease that is protected now may be taken; infinite when there is none. */
export function nextVictimAtMs({ all }: VictimBook, nowMs: number): number {
  let nextMs = Infinity;
  for (const { fromMs } of all.values()) if (fromMs > nowMs && fromMs < nextMs) nextMs = fromMs;
  return nextMs;
}

/** The last one takes its place: nobody relies on their order. */
function takeOff(lists: Map<HostId, Victim[]>, host: HostId, victim: Victim): void {
  const list = lists.get(host);
  const at = list?.indexOf(victim) ?? -1;
  const last = list?.pop();
  if (list === undefined || last === undefined || at < 0) return;
  if (list.length === 0) lists.delete(host);
  else if (last !== victim) list[at] = last;
}
