/**
 * @file The genetic rival: DT-FM's way of partitioning (Yuan et al. 2022) on a graph with capacities.
 *
 * A population of assignments; a child takes each node's part from one of two parents, is mended to the capacities, and improved by
 * moves and swaps that help (DT-FM's local search), then replaces the worst. It runs for a time that the bench states.
 */

import { randomFrom } from "../../lib/random.ts";
import {
  cutWeight,
  loadsOf,
  type Cut,
  type CutGraph,
} from "../../planning/parallelism/cut-graph.ts";
import { packParts } from "../../planning/parallelism/pack-parts.ts";

interface RivalLimits {
  readonly seed: number;
  readonly limitMs: number;
}

const POPULATION = 40;

export function geneticCut(
  graph: CutGraph,
  capacities: readonly number[],
  { seed, limitMs }: RivalLimits,
): Cut | undefined {
  const random = randomFrom(seed, "genetic");
  const started = process.cpuUsage();
  const people: Cut[] = [];
  for (let member = 0; member < POPULATION; member += 1) {
    const shuffled = Int32Array.from({ length: graph.nodeCount }, () =>
      random.below(capacities.length),
    );
    const parts = mended(graph, shuffled, capacities) ?? packed(graph, capacities, member);
    if (parts !== undefined) people.push({ parts, weight: cutWeight(graph, parts) });
  }
  if (people.length < 2) return people[0];
  for (;;) {
    const { user, system } = process.cpuUsage(started);
    if ((user + system) / 1000 >= limitMs) break;
    const [a, b] = [people[random.below(people.length)], people[random.below(people.length)]];
    if (a === undefined || b === undefined || a === b) continue;
    const mixed = a.parts.map((part, node) =>
      random.unit() < 0.02
        ? random.below(capacities.length)
        : random.unit() < 0.5
          ? part
          : (b.parts[node] ?? part),
    );
    const parts = mended(graph, mixed, capacities);
    if (parts === undefined) continue;
    for (let attempt = 0; attempt < graph.nodeCount; attempt += 1)
      swapIfBetter(graph, parts, random.below);
    const weight = cutWeight(graph, parts);
    people.sort((x, y) => x.weight - y.weight);
    if (weight < (people.at(-1)?.weight ?? 0)) people[people.length - 1] = { parts, weight };
  }
  return [...people].sort((a, b) => a.weight - b.weight)[0];
}

function packed(
  graph: CutGraph,
  capacities: readonly number[],
  seed: number,
): Int32Array | undefined {
  const found = packParts(graph, capacities, randomFrom(seed, "genetic-pack"));
  return found.kind === "packed" ? found.parts : undefined;
}

/** Lightest nodes of overloaded parts go to where there is room; undefined when that does not end well. */
function mended(
  graph: CutGraph,
  parts: Int32Array,
  capacities: readonly number[],
): Int32Array | undefined {
  const loads = loadsOf(graph, parts, capacities.length);
  const order = Array.from({ length: graph.nodeCount }, (_, node) => node).sort(
    (a, b) => (graph.nodeWeights[a] ?? 0) - (graph.nodeWeights[b] ?? 0) || a - b,
  );
  for (const node of order) {
    const from = parts[node] ?? 0;
    if ((loads[from] ?? 0) <= (capacities[from] ?? 0)) continue;
    const weight = graph.nodeWeights[node] ?? 0;
    const to = capacities.findIndex((capacity, part) => (loads[part] ?? 0) + weight <= capacity);
    if (to < 0) continue;
    parts[node] = to;
    loads[from] = (loads[from] ?? 0) - weight;
    loads[to] = (loads[to] ?? 0) + weight;
  }
  return loads.every((load, part) => load <= (capacities[part] ?? 0)) ? parts : undefined;
}

function swapIfBetter(graph: CutGraph, parts: Int32Array, below: (count: number) => number): void {
  const [a, b] = [below(graph.nodeCount), below(graph.nodeCount)];
  if (parts[a] === parts[b] || graph.nodeWeights[a] !== graph.nodeWeights[b]) return;
  const before = around(graph, parts, a) + around(graph, parts, b);
  const [partA = 0, partB = 0] = [parts[a], parts[b]];
  parts[a] = partB;
  parts[b] = partA;
  if (around(graph, parts, a) + around(graph, parts, b) < before) return;
  parts[a] = partA;
  parts[b] = partB;
}

function around(graph: CutGraph, parts: Int32Array, node: number): number {
  let sum = 0;
  for (let at = graph.starts[node] ?? 0; at < (graph.starts[node + 1] ?? 0); at += 1)
    if (parts[graph.neighbours[at] ?? 0] !== parts[node]) sum += graph.edgeWeights[at] ?? 0;
  return sum;
}
