/**
 * @file The time of the sends between stages, when all replicas and stages send over the links that they share.
 *
 * A unit computes or sends, one tensor at a time, so a link never carries more flows at once than there are units that send over it. Under
 * max–min fairness each flow then has at least the smallest of rate ÷ flows over the links of its way: a time from that rate is never too
 * short, whatever else is under way. Cost: O(cells).
 */

import type { PlanSite, Unit } from "./site.ts";
import { contextEdges, contextRing } from "./context-ring.ts";
import { besideOnHost, hostsOfGroup } from "./expert-exchange.ts";
import { eachLink, linksOf, type SiteLinks } from "./site-links.ts";

export interface PipelineCells {
  readonly replicas: number;
  readonly stages: number;
  readonly width: number;
  readonly experts?: number;
  readonly contexts?: number;
  /** Of each stage (split.ts): with several the last stage and the first send to each other, too. */
  readonly runs?: number;
  readonly cells: readonly Unit[];
}

/** What a send to a neighbour gets of its way. */
export interface SendRate {
  /** Senders among which what a unit has inside its host is shared, and the ports of the unit; 1 and 1 where the rate is of links between hosts. */
  readonly senders: number;
  readonly ports: number;
  readonly bytesPerMs: number;
  readonly latencyMs: number;
}

/** Milliseconds for so many bytes on their way. */
export const sendTime = (
  { senders, ports, bytesPerMs, latencyMs }: SendRate,
  bytes: number,
): number => (bytes * senders) / ports / bytesPerMs + latencyMs;

/** From one cell to a neighbour in its pipeline; `senders`: those of `sendersOf`. */
export function sendRates(
  split: PipelineCells,
  site: PlanSite,
  senders: Int32Array,
): (from: number, to: number) => SendRate {
  const links = linksOf(site);
  const { cells, width } = split;
  let [slowest, latencyMs] = [Infinity, 0];
  const cross = (link: number): void => {
    slowest = Math.min(slowest, (links.gbs[link] ?? 0) / Math.max(1, senders[link] ?? 1));
    latencyMs = Math.max(latencyMs, links.latencyMs[link] ?? 0);
  };
  return (from, to) => {
    const way = [cells[from]?.host ?? -1, cells[to]?.host ?? -1] as const;
    const inside = site.hosts[way[0]]?.inside;
    slowest = Infinity;
    latencyMs = 0;
    eachLink(links, way, cross);
    // Over NVLink each GPU of a unit sends its part over a port of its own; its neighbours and its group may send to the unit at once.
    if (slowest === Infinity && inside !== undefined)
      return {
        ...{ senders: sendersTo(split, to), ports: width },
        ...{ bytesPerMs: inside.gbs * 1e6, latencyMs: inside.latencyMs },
      };
    return { senders: 1, ports: 1, bytesPerMs: slowest * 1e6, latencyMs };
  };
}

/** Of each link: the units that send over it, to the next stage or to those with which they share out experts or a sequence. */
export function sendersOf(split: PipelineCells, site: PlanSite): Int32Array {
  const { replicas, stages, cells, experts = 1, contexts = 1, runs = 1 } = split;
  const links: SiteLinks = linksOf(site);
  const senders = new Int32Array(links.count);
  if (stages === 1 && experts === 1 && contexts === 1) return senders;
  const lastSender = new Int32Array(links.count).fill(-1);
  const count = stages * replicas;
  const ringNext = new Int32Array(contexts === 1 ? 0 : count).fill(-1);
  for (let first = 0; first < ringNext.length; first += contexts)
    for (const { from, to } of contextEdges(contextRing(split, first, site), split, site))
      ringNext[from] = to;
  let group: ReadonlyMap<number, number> | undefined;
  let [cell, from] = [0, -1];
  const cross = (link: number): void => {
    if (lastSender[link] === cell) return;
    lastSender[link] = cell;
    senders[link] = (senders[link] ?? 0) + 1;
  };
  const sendTo = (other: number): void => {
    const to = cells[runs > 1 ? (other + count) % count : other];
    if (to !== undefined) eachLink(links, [from, to.host], cross);
  };
  for (cell = 0; cell < count; cell += 1) {
    from = cells[cell]?.host ?? -1;
    sendTo(cell + replicas);
    sendTo(cell - replicas);
    const onRing = ringNext[cell] ?? -1;
    if (onRing >= 0) eachLink(links, [from, cells[onRing]?.host ?? -1], cross);
    if (experts === 1) continue;
    // Several of a group on one host are reached over the same links.
    if (cell % experts === 0) group = hostsOfGroup(split, cell);
    for (const [host, members] of group ?? [])
      if (host !== from || members > 1) eachLink(links, [from, host], cross);
  }
  return senders;
}

/** Cells of its own host that may send to a cell at the same time. */
export const sendersTo = (split: PipelineCells, cell: number): number =>
  besideOnHost(split, cell) + othersOnHost(split, cell);

/** But for those that share out experts with it: neighbours in its pipeline, and the one before it in the ring of its context. */
export const othersOnHost = (split: PipelineCells, cell: number): number =>
  neighboursOnHost(split, cell) + Number(isInContextOnHost(split, cell));

/** Whether another of those that share out a sequence with a cell lies on its host. */
function isInContextOnHost({ cells, contexts = 1 }: PipelineCells, cell: number): boolean {
  const first = cell - (cell % contexts);
  for (let peer = first; peer < first + contexts; peer += 1)
    if (peer !== cell && cells[peer]?.host === cells[cell]?.host) return true;
  return false;
}

/** Neighbours of a cell in its pipeline that lie on its own host. */
function neighboursOnHost(split: PipelineCells, cell: number): number {
  const host = split.cells[cell]?.host;
  const [next, previous] = neighboursOf(split, cell);
  return Number(next?.host === host) + Number(previous !== next && previous?.host === host);
}

/** In the order of a micro-batch forward. */
function neighboursOf(
  { replicas, stages, runs = 1, cells }: PipelineCells,
  cell: number,
): readonly [next: Unit | undefined, previous: Unit | undefined] {
  const count = stages * replicas;
  const at = (to: number): Unit | undefined => cells[runs > 1 ? (to + count) % count : to];
  return [at(cell + replicas), at(cell - replicas)];
}
