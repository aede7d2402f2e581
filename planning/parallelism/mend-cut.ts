/**
 * @file Repairs a cut that overloads parts, at little more weight: repeats the move or swap with the least cost for each unit of overload removed.
 *
 * Where capacities leave no slack, annealing mostly ends a unit or two off; a swap of two nodes whose weights differ by that much repairs it.
 * The overload that a swap removes depends on the two weights alone, so of the nodes of one weight in one part only the cheapest to move
 * counts. Undefined when no move and no swap removes overload. Cost: O(edges) once; for each round O(n) and, for each overloaded part, the
 * pairs of different weights in it and in another part. Ties go to the lowest node, a move before a swap.
 */

import { LOAD_EPSILON, type CutGraph } from "./cut-graph.ts";
import { holdCut } from "./held-cut.ts";

const ROUNDS = 400;

export function mendCut(
  graph: CutGraph,
  start: Int32Array,
  capacities: readonly number[],
): Int32Array | undefined {
  const { nodeCount, nodeWeights } = graph;
  const partCount = capacities.length;
  const { parts, loads, pull, move } = holdCut(graph, start, partCount);
  const room = Float64Array.from(capacities, (capacity) => capacity * (1 + LOAD_EPSILON));
  const over = (part: number, added: number): number =>
    Math.max(0, (loads[part] ?? 0) + added - (room[part] ?? 0));
  if (room.every((_, part) => over(part, 0) === 0)) return parts;
  const { weights, kindOf } = kindsOf(nodeWeights);
  const kindCount = weights.length;
  /** By part and kind: the node of the overloaded part, or of the other one, that is cheapest to move across, and its cost. */
  const going = new Int32Array(partCount * kindCount);
  const coming = new Int32Array(partCount * kindCount);
  const goingPrice = new Float64Array(partCount * kindCount);
  const comingPrice = new Float64Array(partCount * kindCount);
  for (let round = 0; round < ROUNDS; round += 1) {
    const chosen = cheapest();
    if (chosen === undefined) return undefined;
    const from = parts[chosen.a] ?? 0;
    move(chosen.a, chosen.to);
    if (chosen.b >= 0) move(chosen.b, from);
    if (room.every((_, part) => over(part, 0) === 0)) return parts;
  }
  return undefined;

  function cheapest(): Change | undefined {
    let best: Change | undefined;
    for (let from = 0; from < partCount; from += 1) {
      const excess = over(from, 0);
      if (excess === 0) continue;
      gather(from);
      for (let to = 0; to < partCount; to += 1) {
        if (to === from) continue;
        const spare = (room[to] ?? 0) - (loads[to] ?? 0);
        const row = to * kindCount;
        // The overload that a shift removes from one part, less the overload that it adds to the other.
        const reliefOf = (shift: number): number =>
          Math.min(excess, shift) - Math.max(0, shift - Math.max(0, spare));
        for (let kind = 0; kind < kindCount; kind += 1) {
          const a = going[row + kind] ?? -1;
          if (a < 0) continue;
          const weight = weights[kind] ?? 0;
          const own = goingPrice[row + kind] ?? 0;
          best = cheaper(best, { a, b: -1, to, price: own, relief: reliefOf(weight) });
          for (let lighter = 0; lighter < kind; lighter += 1) {
            const b = coming[row + lighter] ?? -1;
            if (b < 0) continue;
            const relief = reliefOf(weight - (weights[lighter] ?? 0));
            const price = own + (comingPrice[row + lighter] ?? 0);
            if (best === undefined || price <= best.price * relief)
              best = cheaper(best, { a, b, to, price, relief });
          }
        }
      }
    }
    return best;
  }

  function gather(from: number): void {
    going.fill(-1);
    coming.fill(-1);
    for (let node = 0; node < nodeCount; node += 1) {
      const part = parts[node] ?? 0;
      const kind = kindOf[node] ?? 0;
      const row = node * partCount;
      const held = pull[row + part] ?? 0;
      if (part !== from) {
        const slot = part * kindCount + kind;
        const price = held - (pull[row + from] ?? 0);
        if ((coming[slot] ?? -1) >= 0 && price >= (comingPrice[slot] ?? 0)) continue;
        coming[slot] = node;
        comingPrice[slot] = price;
        continue;
      }
      for (let to = 0; to < partCount; to += 1) {
        const slot = to * kindCount + kind;
        const price = held - (pull[row + to] ?? 0);
        if ((going[slot] ?? -1) >= 0 && price >= (goingPrice[slot] ?? 0)) continue;
        going[slot] = node;
        goingPrice[slot] = price;
      }
    }
  }
}

interface Change {
  readonly a: number;
  /** The node that takes its place, or −1. */
  readonly b: number;
  readonly to: number;
  /** Added cut weight for each unit of removed overload. */
  readonly price: number;
}

function cheaper(
  best: Change | undefined,
  { relief, price: added, ...change }: Change & { readonly relief: number },
): Change | undefined {
  if (relief <= 0) return best;
  const price = added / relief;
  if (best === undefined || price < best.price) return { ...change, price };
  if (price > best.price) return best;
  const isFirst =
    change.a < best.a ||
    (change.a === best.a &&
      (change.b < 0 ? best.b >= 0 || change.to < best.to : best.b >= 0 && change.b < best.b));
  return isFirst ? { ...change, price } : best;
}

/** The weights that occur, ascending, and which of them each node has. */
function kindsOf(nodeWeights: Float64Array): {
  readonly weights: Float64Array;
  readonly kindOf: Int32Array;
} {
  const weights = Float64Array.from(new Set(nodeWeights)).sort();
  const known = new Map<number, number>();
  for (const [kind, weight] of weights.entries()) known.set(weight, kind);
  return { weights, kindOf: Int32Array.from(nodeWeights, (weight) => known.get(weight) ?? 0) };
}
