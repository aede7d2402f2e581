/**
 * @file The neighbourhood of a candidate: the candidates that one change makes of it.
 *
 *   hand over   one GPU, or half of a share, from one host to another used or unused host
 *   relocate    a share to an unused host
 *   exchange    the counts of two hosts
 *   dissolve    the smallest share, its GPUs to the others with the most room
 * Hosts of one count and one intra-host bandwidth are alike here; one of them stands for all, so the number of moves follows the number of
 * different shares, not that of hosts. Cost: O(different shares² + hosts).
 */

import { popCount } from "../../domain/lease/lease.ts";
import type { Candidate, PickShare } from "./bandwidth-port.ts";
import type { HostOptions } from "./host-options.ts";
import type { Seats } from "./shapes.ts";

/** Unused hosts that a share may move to, by each rule. */
const NEW_HOSTS = 2;

export interface Ground {
  readonly hosts: ReadonlyMap<number, HostOptions>;
  readonly seats: Seats;
}

export function* movesFrom(pick: Candidate, ground: Ground): Generator<Candidate> {
  const counts = new Map(pick.map(({ host, mask }) => [host, popCount(mask)]));
  const stand = standIns(pick, ground);
  for (const from of stand) {
    const count = counts.get(from) ?? 0;
    for (const amount of new Set([1, count >> 1])) {
      if (amount < 1 || amount >= count) continue;
      for (const to of stand)
        if (to !== from) yield* handedOver(pick, { from, to, amount }, ground);
      for (const to of newHosts(amount, counts, ground))
        yield* handedOver(pick, { from, to, amount }, ground);
    }
    for (const to of newHosts(count, counts, ground))
      yield* handedOver(pick, { from, to, amount: count }, ground);
    for (const to of stand) {
      const other = counts.get(to) ?? 0;
      if (count > other) yield* handedOver(pick, { from, to, amount: count - other }, ground);
      if (to !== from && other > 0) yield* handedOver(pick, { from, to, amount: count }, ground);
    }
  }
  yield* dissolved(counts, ground);
}

/** One host for each different share. */
function standIns(pick: Candidate, { hosts }: Ground): readonly number[] {
  const seen = new Map<string, number>();
  for (const { host, mask } of pick) {
    const options = hosts.get(host);
    const count = popCount(mask);
    const key = `${count} ${options?.gbs[count] ?? ""} ${options?.free ?? 0}`;
    if (!seen.has(key)) seen.set(key, host);
  }
  return [...seen.values()];
}

function newHosts(
  count: number,
  used: ReadonlyMap<number, number>,
  { seats }: Ground,
): readonly number[] {
  const found = new Set<number>();
  for (const rule of ["fast", "snug"] as const) {
    let left = NEW_HOSTS;
    for (const { host } of seats.ranked(count, rule)) {
      if (left === 0) break;
      if (used.has(host)) continue;
      found.add(host);
      left -= 1;
    }
  }
  return [...found];
}

interface Transfer {
  readonly from: number;
  readonly to: number;
  readonly amount: number;
}

/** Nothing when a host has not as many GPUs. */
function* handedOver(
  pick: Candidate,
  { from, to, amount }: Transfer,
  { hosts }: Ground,
): Generator<Candidate> {
  const shares: PickShare[] = [];
  const isSeated = (host: number, count: number): boolean => {
    const mask = hosts.get(host)?.masks[count];
    if (mask !== undefined && count > 0) shares.push({ host, mask });
    return mask !== undefined;
  };
  let isOpen = true;
  for (const share of pick) {
    const { host, mask } = share;
    if (isOpen && to <= host) {
      isOpen = false;
      if (!isSeated(to, amount + (host === to ? popCount(mask) : 0))) return;
    }
    if (host === from) {
      if (!isSeated(from, popCount(mask) - amount)) return;
    } else if (host !== to) shares.push(share);
  }
  if (isOpen && !isSeated(to, amount)) return;
  yield shares;
}

function* dissolved(counts: ReadonlyMap<number, number>, ground: Ground): Generator<Candidate> {
  const [smallest] = [...counts].sort(([a, m], [b, n]) => m - n || a - b);
  if (smallest === undefined || counts.size < 2) return;
  const [gone, freed] = smallest;
  const after = new Map(counts);
  after.delete(gone);
  const roomOf = (host: number): number =>
    (ground.hosts.get(host)?.free ?? 0) - (after.get(host) ?? 0);
  for (let open = freed; open > 0; open -= 1) {
    let best: number | undefined;
    for (const host of after.keys())
      if (roomOf(host) > 0 && (best === undefined || roomOf(host) > roomOf(best))) best = host;
    if (best === undefined) return;
    after.set(best, (after.get(best) ?? 0) + 1);
  }
  const pick = pickOf(after, ground);
  if (pick !== undefined) yield pick;
}

/** Undefined when a host has not as many GPUs. */
function pickOf(counts: ReadonlyMap<number, number>, { hosts }: Ground): Candidate | undefined {
  const shares: PickShare[] = [];
  for (const [host, count] of counts) {
    if (count === 0) continue;
    const mask = hosts.get(host)?.masks[count];
    if (mask === undefined) return undefined;
    shares.push({ host, mask });
  }
  return shares.sort((a, b) => a.host - b.host);
}
