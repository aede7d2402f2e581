/**
 * @file Assigns units of GPUs to the stages of each replica, in two levels, as in SpiderFlow §4.2.
 *
 * Between clusters: the cells (stage, replica) form a graph whose edges weigh the bytes of a step (activations and their gradients between
 * neighbouring stages, gradients between replicas of a stage, tokens between those that share out experts); it is cut into parts as large as the clusters (cut.ts). Within a cluster: the
 * cluster's part of the graph is assigned to hosts by an integer program, min α Σ dp bytes cut + β Σ pp bytes cut, through the solver port
 * where it is small, else by the cut again. Plain arrangements (pipelines or replicas kept together, in order) are candidates beside it.
 * Cost: O(cells) for a plain one; one cut and one program a cluster for the others.
 */

import type { MilpProblem, MilpSolver, MilpTerm, MilpVariable } from "../../lib/milp.ts";
import type { Random } from "../../lib/random.ts";
import { cutGraphOf, type CutGraph, type WeightedEdge } from "./cut-graph.ts";
import { cutGraph } from "./cut.ts";
import type { PlanSite, Unit } from "./site.ts";

export interface Grid {
  readonly stages: number;
  readonly replicas: number;
  /** Of one step between neighbouring stages of one replica, by the earlier stage; of the last stage, to the first. */
  readonly sendBytes: readonly number[];
  /** Gradients of one stage, but of experts that replicas share out. */
  readonly reduceBytes: readonly number[];
  /** Replicas in a row that share out each sequence, and what an edge of their ring carries, by stage. */
  readonly contexts?: { readonly degree: number; readonly ringBytes: readonly number[] };
  readonly experts?: {
    /** Replicas in a row that share them out. */
    readonly degree: number;
    /** Gradients of a replica's own ones, by stage. */
    readonly reduceBytes: readonly number[];
    /** Tokens and results to each other of a group, by stage. */
    readonly exchangeBytes: readonly number[];
  };
}

/** Pipelines kept together: the units of so many replicas in a row follow one another, stage after stage. */
export const byGroup = (
  { stages, replicas }: Grid,
  together: number,
  units: readonly Unit[],
): readonly Unit[] =>
  Array.from({ length: stages * replicas }, (_, cell) => {
    const [stage, replica] = [Math.floor(cell / replicas), cell % replicas];
    const [group, member] = [Math.floor(replica / together), replica % together];
    return units[(group * stages + stage) * together + member];
  }).flatMap((unit) => unit ?? []);

/** The same of each replica by itself. */
export const byReplica = (grid: Grid, units: readonly Unit[]): readonly Unit[] =>
  byGroup(grid, 1, units);

/** Replicas kept together: the units of one stage follow one another. */
export const byStage = ({ stages, replicas }: Grid, units: readonly Unit[]): readonly Unit[] =>
  units.slice(0, stages * replicas);

/** Bytes of a step between any two cells. */
export function cellGraph({
  stages,
  replicas,
  sendBytes,
  reduceBytes,
  experts,
  contexts,
}: Grid): CutGraph {
  const ofContexts = (stage: number, a: number, b: number): number =>
    contexts === undefined || Math.floor(a / contexts.degree) !== Math.floor(b / contexts.degree)
      ? 0
      : (4 * (contexts.ringBytes[stage] ?? 0)) / contexts.degree;
  const ofExperts = (stage: number, a: number, b: number): number => {
    if (experts === undefined) return 0;
    const { degree } = experts;
    const isGroup = Math.floor(a / degree) === Math.floor(b / degree);
    const isSame = a % degree === b % degree;
    return (
      (isGroup ? 2 * (experts.exchangeBytes[stage] ?? 0) : 0) +
      (isSame ? (4 * (experts.reduceBytes[stage] ?? 0)) / (replicas / degree) : 0)
    );
  };
  const edges: WeightedEdge[] = [];
  for (let stage = 0; stage < stages; stage += 1) {
    for (let replica = 0; replica < replicas; replica += 1) {
      const cell = stage * replicas + replica;
      const next = stage + 1 < stages ? cell + replicas : replica;
      const weight = sendBytes[stage] ?? 0;
      if (next !== cell && weight > 0) edges.push({ a: cell, b: next, weight });
      // Every pair counts, because the order of the ring is free and any split of the replicas costs.
      for (let other = replica + 1; other < replicas; other += 1)
        edges.push({
          a: cell,
          b: stage * replicas + other,
          weight:
            (4 * (reduceBytes[stage] ?? 0)) / replicas +
            ofExperts(stage, replica, other) +
            ofContexts(stage, replica, other),
        });
    }
  }
  return cutGraphOf(
    Array.from({ length: stages * replicas }, () => 1),
    edges,
  );
}

export interface TwoLevels {
  readonly cells: readonly Unit[];
  /** Clusters whose hosts were assigned by the integer programme, proven or not. */
  readonly programmes: readonly ("optimal" | "feasible")[];
}

export interface ArrangeSetting {
  readonly site: PlanSite;
  readonly units: readonly Unit[];
  readonly random: Random;
  readonly solver?: (problem: MilpProblem) => MilpSolver;
}

const CUT_EFFORT = Object.freeze({ mostSteps: 400_000, population: 4, children: 4 });
/** For a cell at most: few cells have few arrangements. */
const CELL_STEPS = 4_000;
/** Neighbours of a cell, on average, up to which all steps are made: a step looks at the neighbours of what it moves. */
const CUT_NEIGHBOURS = 32;
/** Above this size a proof takes up to seconds and finds no better answer than the cut, because many cells are equal. */
const PROGRAMME_BINARIES = 24;
const PROGRAMME_MS = 2_000;

export async function twoLevels(
  grid: Grid,
  { site, units, random, solver }: ArrangeSetting,
): Promise<TwoLevels | undefined> {
  const graph = cellGraph(grid);
  const clusters = groupedBy(units, ({ host }) => site.hosts[host]?.cluster ?? "");
  const across = cutExactly(graph, clusters, random.stream("clusters"));
  if (across === undefined) return undefined;
  const cells: Unit[] = [];
  const programmes: ("optimal" | "feasible")[] = [];
  for (const [part, own] of clusters.entries()) {
    const members = [...across].flatMap((of, cell) => (of === part ? [cell] : []));
    const hosts = groupedBy(own, ({ host }) => String(host));
    const inner = induced(graph, members);
    let placed = hosts.length === 1 ? members.map(() => 0) : undefined;
    if (
      placed === undefined &&
      solver !== undefined &&
      members.length * hosts.length <= PROGRAMME_BINARIES
    ) {
      const problem = hostProgramme(
        inner,
        hosts.map(({ length }) => length),
      );
      const answer = await solver(problem).solve(problem, { timeLimitMs: PROGRAMME_MS });
      if ("values" in answer) {
        programmes.push(answer.status);
        placed = members.map((_, at) =>
          hosts.findIndex((__, host) => answer.values[at * hosts.length + host] === 1),
        );
      }
    }
    placed ??= [
      ...(cutExactly(inner, hosts, random.stream(`hosts-${part}`)) ?? members.map(() => 0)),
    ];
    const free = hosts.map((list) => [...list]);
    for (const [at, cell] of members.entries()) {
      const unit = free[placed[at] ?? 0]?.shift() ?? free.find((list) => list.length > 0)?.shift();
      if (unit !== undefined) cells[cell] = unit;
    }
  }
  return { cells, programmes };
}

/** Parts exactly as large as the groups. */
function cutExactly(
  graph: CutGraph,
  groups: readonly (readonly Unit[])[],
  random: Random,
): Int32Array | undefined {
  if (groups.length === 1) return new Int32Array(graph.nodeCount);
  const share = Math.min(1, (CUT_NEIGHBOURS * graph.nodeCount) / graph.neighbours.length);
  const answer = cutGraph(graph, {
    capacities: groups.map(({ length }) => length),
    random,
    effort: {
      ...CUT_EFFORT,
      mostSteps: Math.min(Math.round(CUT_EFFORT.mostSteps * share), CELL_STEPS * graph.nodeCount),
    },
  });
  return answer.kind === "cut" ? answer.pick.parts : undefined;
}

/** x[cell, host] ∈ {0, 1}; an edge is cut where its ends are on different hosts. */
export function hostProgramme(graph: CutGraph, rooms: readonly number[]): MilpProblem {
  const hostCount = rooms.length;
  const variables: MilpVariable[] = [];
  for (let cell = 0; cell < graph.nodeCount; cell += 1)
    for (let host = 0; host < hostCount; host += 1)
      variables.push({ name: `x${cell}_${host}`, lower: 0, upper: 1, isInteger: true, cost: 0 });
  const at = (cell: number, host: number): number => cell * hostCount + host;
  const rows: { name: string; terms: MilpTerm[]; lower: number; upper: number }[] = [];
  for (let cell = 0; cell < graph.nodeCount; cell += 1) {
    const terms = rooms.map((_, host) => ({ variable: at(cell, host), coefficient: 1 }));
    rows.push({ name: `cell${cell}`, terms, lower: 1, upper: 1 });
  }
  for (const [host, room] of rooms.entries()) {
    const terms = Array.from({ length: graph.nodeCount }, (_, cell) => ({
      variable: at(cell, host),
      coefficient: graph.nodeWeights[cell] ?? 1,
    }));
    rows.push({ name: `host${host}`, terms, lower: 0, upper: room });
  }
  const scale = 1 / Math.max(Number.MIN_VALUE, ...graph.edgeWeights);
  for (let a = 0; a < graph.nodeCount; a += 1) {
    for (let edge = graph.starts[a] ?? 0; edge < (graph.starts[a + 1] ?? 0); edge += 1) {
      const b = graph.neighbours[edge] ?? 0;
      if (b < a) continue;
      const cut = variables.length;
      const cost = (graph.edgeWeights[edge] ?? 0) * scale;
      variables.push({ name: `cut${a}_${b}`, lower: 0, upper: 1, isInteger: false, cost });
      for (let host = 0; host < hostCount; host += 1)
        rows.push({
          name: `cut${a}_${b}_${host}`,
          terms: [
            { variable: cut, coefficient: 1 },
            { variable: at(a, host), coefficient: -1 },
            { variable: at(b, host), coefficient: 1 },
          ],
          lower: 0,
          upper: Infinity,
        });
    }
  }
  return { name: "cells on hosts", sense: "minimise", variables, rows };
}

function induced(graph: CutGraph, members: readonly number[]): CutGraph {
  const places = new Map(members.map((cell, at) => [cell, at]));
  const edges: WeightedEdge[] = [];
  for (const [a, cell] of members.entries()) {
    for (let edge = graph.starts[cell] ?? 0; edge < (graph.starts[cell + 1] ?? 0); edge += 1) {
      const b = places.get(graph.neighbours[edge] ?? -1);
      if (b !== undefined && b > a) edges.push({ a, b, weight: graph.edgeWeights[edge] ?? 0 });
    }
  }
  return cutGraphOf(
    members.map(() => 1),
    edges,
  );
}

function groupedBy(units: readonly Unit[], keyOf: (unit: Unit) => string): readonly Unit[][] {
  const groups = new Map<string, Unit[]>();
  for (const unit of units) {
    const group = groups.get(keyOf(unit));
    if (group === undefined) groups.set(keyOf(unit), [unit]);
    else group.push(unit);
  }
  return [...groups.values()];
}
