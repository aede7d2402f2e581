/**
 * @file What replicas that share out experts send one another: the tokens of a micro-batch to their experts, and the results back.
 *
 * Groups are replicas in a row of one stage; choices of experts count as even, so a unit sends the same to each of its group, itself included. A
 * unit computes, sends or exchanges, one at a time, so a link carries at most one exchange or send of each unit: with a share of rate ÷ units on each
 * link, no exchange is shorter than max–min fairness makes it. Cost: O(cells × hosts of a group).
 */

import { eachLink, linksOf, type SiteLinks } from "./site-links.ts";
import type { PlanSite, Unit } from "./site.ts";
import { boundsOf, expertDegree, range, samplesOf, type LayerSums, type Split } from "./split.ts";

export interface ExchangeCells {
  readonly experts?: number;
  readonly width: number;
  readonly cells: readonly Unit[];
}

/** The cells with which a cell shares out experts, itself included. */
export function groupOf({ experts = 1 }: ExchangeCells, cell: number): readonly number[] {
  const first = firstOf(experts, cell);
  const group: number[] = [];
  for (let peer = first; peer < first + experts; peer += 1) group.push(peer);
  return group;
}

/** Hosts of those with which the first cell of a group shares out experts, and how many of them lie there; none where nobody does. */
export function hostsOfGroup(
  { cells, experts = 1 }: ExchangeCells,
  first: number,
): ReadonlyMap<number, number> {
  const counts = new Map<number, number>();
  if (experts === 1) return counts;
  for (let peer = first; peer < first + experts; peer += 1) {
    const host = cells[peer]?.host ?? -1;
    counts.set(host, (counts.get(host) ?? 0) + 1);
  }
  return counts;
}

/** The cells of a stage are a whole number of groups. */
const firstOf = (experts: number, cell: number): number => cell - (cell % experts);

/** Calls back with each link to each other of the group, once for each of them. */
function eachExchangeLink(
  { cells, experts = 1 }: ExchangeCells,
  { cell, links }: { readonly cell: number; readonly links: SiteLinks },
  visit: (link: number) => void,
): void {
  const from = cells[cell]?.host ?? -1;
  const first = firstOf(experts, cell);
  // No list of the group: all cells of all candidates come by here.
  for (let peer = first; peer < first + experts; peer += 1)
    if (peer !== cell) eachLink(links, [from, cells[peer]?.host ?? -1], visit);
}

/** Of a pass: tokens and results, to one other of the group. */
export interface PassBytes {
  readonly forward: number;
  readonly backward: number;
}

/** Of a micro-batch and a run of layers (split.ts). Backward sends as much again, and so does a second forward. */
export function exchangeBytes(split: Split, run: number, sums: LayerSums): PassBytes {
  const degree = expertDegree(split);
  if (degree === 1) return { forward: 0, backward: 0 };
  const [from, to] = boundsOf(split, run);
  const forward = (2 * range(sums.expertBytes, from, to) * samplesOf(split)) / degree;
  return { forward, backward: forward * (split.isRecomputing ? 2 : 1) };
}

/** How often a run's units exchange something in a forward pass, for the latency. */
export const exchangeCalls = (split: Split, run: number, sums: LayerSums): number =>
  expertDegree(split) === 1 ? 0 : 2 * range(sums.expertLayers, ...boundsOf(split, run));

/** Others of a cell's group on its own host. */
export function besideOnHost({ cells, experts = 1 }: ExchangeCells, cell: number): number {
  const own = cells[cell]?.host;
  const first = firstOf(experts, cell);
  let beside = -1;
  for (let peer = first; peer < first + experts; peer += 1)
    if (cells[peer]?.host === own) beside += 1;
  return beside;
}

export interface ExchangeSetting {
  readonly cell: number;
  readonly site: PlanSite;
  /** Units that send or exchange over each link. */
  readonly users: Int32Array;
  /** Cells of the same host that may send to one of the group meanwhile. */
  readonly neighbours: number;
  /** Rates over shared links that were found of this split, and others of the group on the host: those of a group on one host are alike. */
  readonly known: Map<number, ExchangeRate & { readonly beside: number }>;
}

/** Milliseconds in which a cell sends a byte to each other of its group, and the latency of once. */
export interface ExchangeRate {
  readonly msPerByte: number;
  readonly latencyMs: number;
}

export function exchangeRate(of: ExchangeCells, setting: ExchangeSetting): ExchangeRate {
  const { cell, site, neighbours, known } = setting;
  const own = of.cells[cell]?.host ?? -1;
  const key = firstOf(of.experts ?? 1, cell) * site.hosts.length + own;
  const shared = known.get(key) ?? {
    ...sharedRate(of, setting),
    beside: besideOnHost(of, cell),
  };
  known.set(key, shared);
  const inside = site.hosts[own]?.inside;
  const { beside } = shared;
  if (inside === undefined || beside === 0 || linksOf(site).hasBus[own] !== 0) return shared;
  // Over NVLink every GPU of a unit has a port of its own.
  return {
    msPerByte: Math.max(shared.msPerByte, (beside + neighbours) / (inside.gbs * of.width * 1e6)),
    latencyMs: Math.max(shared.latencyMs, inside.latencyMs),
  };
}

/** Over the links that several cells share. */
function sharedRate(of: ExchangeCells, { cell, site, users }: ExchangeSetting): ExchangeRate {
  const links = linksOf(site);
  const crossed = new Map<number, number>();
  eachExchangeLink(of, { cell, links }, (link) => {
    crossed.set(link, (crossed.get(link) ?? 0) + 1);
  });
  let [msPerByte, latencyMs] = [0, 0];
  for (const [link, times] of crossed) {
    const gbs = (links.gbs[link] ?? 0) / Math.max(1, users[link] ?? 1);
    msPerByte = Math.max(msPerByte, times / (gbs * 1e6));
    latencyMs = Math.max(latencyMs, links.latencyMs[link] ?? 0);
  }
  return { msPerByte, latencyMs };
}
