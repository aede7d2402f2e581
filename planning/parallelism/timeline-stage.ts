/** @file What the parts of a played step share: its task, the links between its units, and the clock on which its actors wait for time or for bytes. */

import type { PassBytes } from "./expert-exchange.ts";
import type { Flow } from "./fair-rates.ts";
import type { GradientTask } from "./gradient-rings.ts";
import { eachLink, linksOf, type SiteLinks } from "./site-links.ts";
import type { PlanSite } from "./site.ts";

export interface TimelineTask extends GradientTask {
  readonly microBatches: number;
  /** Of each stage (split.ts); 1 where absent. */
  readonly runs?: number;
  /** Of a micro-batch, by run × replicas + replica. */
  readonly forwardMs: Float64Array;
  readonly backwardMs: Float64Array;
  /** Of a micro-batch behind each run. */
  readonly sendBytes: readonly number[];
  /** Of a micro-batch and run: what a unit sends to each other of those with which it shares out experts, and how often in a forward pass. */
  readonly exchanges: readonly Exchange[];
  /** Replicas in a row that share out each sequence; over each edge of their ring, of a micro-batch and run, keys and values. */
  readonly contexts?: number;
  readonly contextExchanges: readonly Exchange[];
}

/** `calls`: how often something is sent in a forward pass. */
type Exchange = PassBytes & { readonly calls: number };

/** A unit, a stage's ring or a replica's tied embedding: it waits for time, or for bytes. */
export interface Actor {
  /** Infinity where it waits for no time. */
  wakesAt: number;
  /** Its last one, where none is under way. */
  readonly flow: Flow;
  isMoving: boolean;
  /** What follows when the time has come, or when the bytes have arrived. */
  next: () => void;
}

export interface Stage {
  readonly task: TimelineTask;
  readonly site: PlanSite;
  readonly paths: Paths;
  readonly clock: { readonly nowMs: number };
  readonly actor: () => Actor;
  readonly wait: (of: Actor, ms: number, next: () => void) => void;
  readonly move: (
    of: Actor,
    what: { readonly links: readonly number[]; readonly bytes: number },
    next: () => void,
  ) => void;
}

export interface Path {
  readonly links: readonly number[];
  readonly latencyMs: number;
}

export interface Paths {
  readonly between: (fromCell: number, toCell: number) => Path;
  readonly links: SiteLinks;
  /** Number of a cell's port out; that of its port in follows. */
  readonly portOf: (cell: number) => number;
  readonly bytesPerMs: Float64Array;
}

export function pathsOf({ cells, width }: TimelineTask, site: PlanSite): Paths {
  const links = linksOf(site);
  const portOf = (cell: number): number => links.count + 2 * cell;
  const bytesPerMs = new Float64Array(links.count + 2 * cells.length);
  for (let link = 0; link < links.count; link += 1) bytesPerMs[link] = (links.gbs[link] ?? 0) * 1e6;
  for (const [cell, { host }] of cells.entries())
    for (const port of [portOf(cell), portOf(cell) + 1])
      bytesPerMs[port] = (site.hosts[host]?.inside.gbs ?? 0) * width * 1e6;
  const between = (fromCell: number, toCell: number): Path => {
    const [a = -1, b = -1] = [cells[fromCell]?.host, cells[toCell]?.host];
    if (a === b && links.hasBus[a] !== 1)
      return {
        links: [portOf(fromCell), portOf(toCell) + 1],
        latencyMs: site.hosts[a]?.inside.latencyMs ?? 0,
      };
    const crossed: number[] = [];
    eachLink(links, [a, b], (link) => crossed.push(link));
    return {
      links: crossed,
      latencyMs: Math.max(...crossed.map((link) => links.latencyMs[link] ?? 0)),
    };
  };
  return { between, links, portOf, bytesPerMs };
}
