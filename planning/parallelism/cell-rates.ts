/**
 * @file What of a step's bound follows from where the cells lie alone: what a send to a neighbour, an exchange of tokens and a ring of keys and values get of the links.
 *
 * Splits that differ in micro-batch, memory, or the layers of their stages have all of it in common, so it is found once for each list of cells and kept as long as that
 * list is. Cost: that of pipeline-sends.ts, expert-exchange.ts and context-ring.ts, once.
 */

import { contextEdges, contextRate, contextRing } from "./context-ring.ts";
import { exchangeRate, type ExchangeRate, type ExchangeSetting } from "./expert-exchange.ts";
import { keptOfCells } from "./kept-of-cells.ts";
import { othersOnHost, sendersOf, sendersTo, sendRates, type SendRate } from "./pipeline-sends.ts";
import type { PlanSite } from "./site.ts";
import { contextDegree, expertDegree, type Split } from "./split.ts";

export interface CellRates {
  /** By cell, to the next one in its pipeline and to the one before it. */
  readonly ahead: readonly SendRate[];
  readonly back: readonly SendRate[];
  /** By cell; none where nobody shares out experts. */
  readonly experts: readonly ExchangeRate[];
  /** By group of units that share out a sequence; none where nobody does. */
  readonly rings: readonly ExchangeRate[];
}

const kept = keptOfCells<CellRates>();

export function cellRates(split: Split, site: PlanSite): CellRates {
  const { cells, stages, replicas, width, runs = 1, experts = 1, contexts = 1 } = split;
  const isRound = runs > 1 ? "round" : "";
  const key = `${stages}/${replicas}/${width}/${experts}/${contexts}/${isRound}`;
  return kept({ site, cells, key }, () => read(split, site));
}

function read(split: Split, site: PlanSite): CellRates {
  const users = sendersOf(split, site);
  const rateOf = sendRates(split, site, users);
  const count = split.stages * split.replicas;
  const cells = Array.from({ length: count }, (_, cell) => cell);
  // With several runs the first stage follows the last.
  const cellAt = (place: number): number => (place + count) % count;
  const shared: ExchangeSetting["known"] = new Map();
  const [experts, contexts] = [expertDegree(split), contextDegree(split)];
  return {
    ahead: cells.map((cell) => rateOf(cell, cellAt(cell + split.replicas))),
    back: cells.map((cell) => rateOf(cell, cellAt(cell - split.replicas))),
    experts:
      experts === 1
        ? []
        : cells.map((cell) => {
            const neighbours = othersOnHost(split, cell);
            return exchangeRate(split, { cell, site, users, neighbours, known: shared });
          }),
    rings:
      contexts === 1
        ? []
        : Array.from({ length: count / contexts }, (_, group) =>
            contextRate(split, {
              edges: contextEdges(contextRing(split, group * contexts, site), split, site),
              ...{ site, users },
              sendersTo: (to) => sendersTo(split, to),
            }),
          ),
  };
}
