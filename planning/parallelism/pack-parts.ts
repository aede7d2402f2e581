/**
 * @file Puts all nodes into parts without overload, at any cut: the heaviest node first, into the part with the most room.
 *
 * This is bin packing; when largest-room fails, best-fit is tried, then both in a few shuffled orders of nodes of nearly equal weight. A
 * failure is therefore no proof that no packing exists; its message says how close the best try came.
 * Cost: O(tries × n × parts). Ties go to the lower part.
 */

import type { Random } from "../../lib/random.ts";
import { LOAD_EPSILON, type CutGraph } from "./cut-graph.ts";

export type Packed =
  | { readonly kind: "packed"; readonly parts: Int32Array }
  | { readonly kind: "does not fit"; readonly node: number; readonly missing: number };

const TRIES = 24;

export function packParts(graph: CutGraph, capacities: readonly number[], random: Random): Packed {
  let closest: Packed | undefined;
  for (let attempt = 0; attempt < TRIES; attempt += 1) {
    const isBestFit = attempt % 2 === 1;
    const keys = Array.from(
      graph.nodeWeights,
      (weight) => weight * (attempt < 2 ? 1 : 1 + 0.2 * random.unit()),
    );
    const packed = packOnce(graph, capacities, { keys, isBestFit });
    if (packed.kind === "packed") return packed;
    if (closest?.kind !== "does not fit" || packed.missing < closest.missing) closest = packed;
  }
  return closest ?? { kind: "does not fit", node: 0, missing: 0 };
}

function packOnce(
  graph: CutGraph,
  capacities: readonly number[],
  { keys, isBestFit }: { readonly keys: readonly number[]; readonly isBestFit: boolean },
): Packed {
  const order = keys
    .map((_, node) => node)
    .sort((a, b) => (keys[b] ?? 0) - (keys[a] ?? 0) || a - b);
  const room = capacities.map((capacity) => capacity * (1 + LOAD_EPSILON));
  const parts = new Int32Array(graph.nodeCount);
  for (const node of order) {
    const weight = graph.nodeWeights[node] ?? 0;
    let chosen = -1;
    for (const [part, left] of room.entries()) {
      if (left < weight) continue;
      const held = room[chosen];
      if (held === undefined || (isBestFit ? left < held : left > held)) chosen = part;
    }
    if (chosen < 0) return { kind: "does not fit", node, missing: weight - Math.max(...room) };
    parts[node] = chosen;
    room[chosen] = (room[chosen] ?? 0) - weight;
  }
  return { kind: "packed", parts };
}
