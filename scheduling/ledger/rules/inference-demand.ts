/**
 * @file The recent rises in the demand of inference jobs: they set the size of the headroom (reservation/inference-headroom.ts).
 *
 * Demand is the number of GPUs that inference jobs hold or wait for. For each of the last `WINDOW_S` seconds in which it changed, three
 * numbers are kept: the second, the demand at its beginning, and the maximum in it. No rule of `apply` depends on them.
 * Cost: O(leases + requests) to begin, O(1) a change; about 10 bytes of state for each second with a change.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { gpuCountOf, type Lease } from "../../../domain/lease/lease.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import type { DemandTrace, Ledger } from "../ledger.ts";

export const SLOT_MS = 1_000;
/** Long enough to have seen rare bursts, short enough to follow the day. */
export const WINDOW_S = 600;

/** A trace while it grows. */
export interface DemandBook {
  gpus: number;
  readonly slots: [slot: number, startGpus: number, mostGpus: number][];
  /** Of all changes so far, once it was asked for. */
  trace?: DemandTrace | undefined;
}

export function openDemand({
  latencyDemand,
  leases,
  requests,
}: Pick<Ledger, "latencyDemand" | "leases" | "requests">): DemandBook {
  if (latencyDemand !== undefined) {
    const { gpus, slots } = latencyDemand;
    return { gpus, slots: slots.map(([slot, start, most]) => [slot, start, most]) };
  }
  let gpus = 0;
  for (const lease of leases.values()) gpus += heldBy(lease);
  for (const request of requests.values()) gpus += wantedBy(request);
  return { gpus, slots: [] };
}

/** The same value until demand changes. */
export const traceOf = (book: DemandBook): DemandTrace =>
  (book.trace ??= { gpus: book.gpus, slots: book.slots });

/** GPUs of a lease, or a request, that count. */
export const heldBy = (lease: Lease | undefined): number =>
  lease?.class !== "inference" || lease.state === "vacating" ? 0 : gpuCountOf(lease.gpus);

export const wantedBy = (request: PendingRequest | undefined): number =>
  request?.class === "inference" ? request.gang.gpus * (request.slots ?? 1) : 0;

/** Demand has changed by so many GPUs. Time that runs backwards counts for the last second. */
export function noteDemand(book: DemandBook, moreGpus: number, nowMs: number): void {
  const { slots } = book;
  book.trace = undefined;
  const slot = Math.floor(nowMs / SLOT_MS);
  const before = book.gpus;
  book.gpus += moreGpus;
  const last = slots.at(-1);
  if (last !== undefined && last[0] >= slot) {
    last[2] = Math.max(last[2], book.gpus);
    return;
  }
  slots.push([slot, before, Math.max(before, book.gpus)]);
  const firstReserved = slots.findIndex(([each]) => each > slot - WINDOW_S);
  if (firstReserved > 0) slots.splice(0, firstReserved);
}

/**
 * For every second of the window that is over, in their order: by how much demand rose above where it stood at the second's beginning,
 * in the `leadS` seconds from there. The same all through a second.
 */
export function risesOf(
  { gpus, slots }: DemandTrace,
  { nowMs, leadS }: { readonly nowMs: number; readonly leadS: number },
): Float64Array {
  const [first] = slots;
  if (first === undefined) return new Float64Array(0);
  const endS = Math.floor(nowMs / SLOT_MS);
  const fromS = Math.max(endS - WINDOW_S, first[0]);
  const length = endS - fromS;
  if (length < 1) return new Float64Array(0);
  const starts = new Float64Array(length);
  const mosts = new Float64Array(length);
  // Between two busy seconds demand stands where the next of them begins, and after the last where it is now.
  let at = 0;
  for (const [slot, start, most] of slots) {
    for (; at < length && fromS + at < slot; at += 1) starts[at] = mosts[at] = start;
    if (slot < fromS || at >= length) continue;
    starts[at] = start;
    mosts[at] = most;
    at += 1;
  }
  for (; at < length; at += 1) starts[at] = mosts[at] = gpus;
  return risesWithin(starts, mosts, leadS);
}

/** The highest of the next `leadS` seconds from each on, less where it stood: a falling queue of candidates, O(1) a second. */
function risesWithin(starts: Float64Array, mosts: Float64Array, leadS: number): Float64Array {
  const { length } = starts;
  const rises = new Float64Array(length);
  /** Seconds, each higher than all between it and the second that is looked at. */
  const peaks = new Uint32Array(length);
  let first = length;
  let last = length - 1;
  for (let second = length - 1; second >= 0; second -= 1) {
    const most = mosts[second] ?? 0;
    while (first <= last && (mosts[peaks[first] ?? 0] ?? 0) <= most) first += 1;
    first -= 1;
    peaks[first] = second;
    while ((peaks[last] ?? 0) >= second + leadS) last -= 1;
    const start = starts[second] ?? 0;
    rises[second] = Math.max(start, mosts[peaks[last] ?? 0] ?? 0) - start;
  }
  return rises;
}
