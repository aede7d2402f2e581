/**
 * @file What units that share out the tokens of a sequence send one another: keys and values, around a ring (context parallelism).
 *
 * Groups are replicas in a row of one stage. Each keeps s/c tokens, and attention of all of them needs the keys and values of all: each unit hands what it has to the next one,
 * c − 1 times, while every other does the same, so each edge of the ring carries (c − 1)/c of a micro-batch's keys and values. Backward sends them again with their
 * gradients, and a second forward once more. (Liu et al. 2023, ring attention; Megatron-Core with `--cp-comm-type p2p`.) The ring's order is that of gradient-rings.ts, and on a
 * bus without NVLink its members are one flow. A group begins together and ends with its slowest edge. An edge has rate ÷ units on each link, as sends have, so no
 * exchange is shorter than max–min fairness makes it. Cost: O(units of a group).
 */

import type { ExchangeRate, PassBytes } from "./expert-exchange.ts";
import { ringOf } from "./gradient-rings.ts";
import { eachLink, linksOf } from "./site-links.ts";
import type { PlanSite, Unit } from "./site.ts";
import { boundsOf, contextDegree, range, samplesOf, type LayerSums, type Split } from "./split.ts";

export interface ContextCells {
  readonly contexts?: number;
  readonly width: number;
  readonly cells: readonly Unit[];
}

export interface RingEdge {
  readonly from: number;
  readonly to: number;
}

/** The cells of a cell's group in the order of its ring; the cells of a stage are a whole number of groups. */
export function contextRing(
  { contexts = 1, cells }: ContextCells,
  cell: number,
  site: PlanSite,
): readonly number[] {
  const first = cell - (cell % contexts);
  const hostOf = (of: number): number => cells[of]?.host ?? -1;
  const group: number[] = [];
  let isOneHost = true;
  for (let other = first; other < first + contexts; other += 1) {
    group.push(other);
    isOneHost &&= hostOf(other) === hostOf(first);
  }
  if (isOneHost) return group;
  const { hosts } = ringOf(cells.slice(first, first + contexts), site, linksOf(site));
  return hosts.flatMap((host) => group.filter((other) => hostOf(other) === host));
}

/** Those that are flows of their own: of a host's bus, one. */
export function contextEdges(
  ring: readonly number[],
  { cells }: ContextCells,
  site: PlanSite,
): readonly RingEdge[] {
  const { hasBus } = linksOf(site);
  let busOf = -1;
  const edges: RingEdge[] = [];
  for (const [at, from] of ring.entries()) {
    const to = ring[(at + 1) % ring.length] ?? from;
    const [a = -1, b = -1] = [cells[from]?.host, cells[to]?.host];
    const isOnBus = a === b && hasBus[a] === 1;
    // Members of a host follow one another.
    if (!isOnBus || busOf !== a) edges.push({ from, to });
    if (isOnBus) busOf = a;
  }
  return edges;
}

/** Over each edge, of a micro-batch and a run of layers (split.ts). */
export function contextBytes(split: Split, run: number, sums: LayerSums): PassBytes {
  const degree = contextDegree(split);
  const [from, to] = boundsOf(split, run);
  const forward = (degree - 1) * range(sums.keyValueBytes, from, to) * samplesOf(split);
  return { forward, backward: forward * (split.isRecomputing ? 3 : 2) };
}

/** How often a run's units hand something on in a forward pass, for the latency. */
export const contextCalls = (split: Split, run: number, sums: LayerSums): number =>
  (contextDegree(split) - 1) * range(sums.attentionLayers, ...boundsOf(split, run));

export interface ContextSetting {
  readonly edges: readonly RingEdge[];
  readonly site: PlanSite;
  /** Units that send or exchange over each link. */
  readonly users: Int32Array;
  /** Cells that may send to a cell over NVLink at once. */
  readonly sendersTo: (cell: number) => number;
}

/** Of the slowest edge. */
export function contextRate(
  { cells, width }: ContextCells,
  { edges, site, users, sendersTo }: ContextSetting,
): ExchangeRate {
  const links = linksOf(site);
  let [msPerByte, latencyMs] = [0, 0];
  for (const { from, to } of edges) {
    const [a = -1, b = -1] = [cells[from]?.host, cells[to]?.host];
    const inside = site.hosts[a]?.inside;
    let isShared = false;
    eachLink(links, [a, b], (link) => {
      isShared = true;
      const gbs = (links.gbs[link] ?? 0) / Math.max(1, users[link] ?? 1);
      msPerByte = Math.max(msPerByte, 1 / (gbs * 1e6));
      latencyMs = Math.max(latencyMs, links.latencyMs[link] ?? 0);
    });
    if (isShared || inside === undefined) continue;
    msPerByte = Math.max(msPerByte, sendersTo(to) / (inside.gbs * width * 1e6));
    latencyMs = Math.max(latencyMs, inside.latencyMs);
  }
  return { msPerByte, latencyMs };
}
