/**
 * @file The rows of SortingHat's MILP (§3.3), equation by equation; the number of each equation is the paper's.
 *
 * v, u and w are nodes, j a slot, i a GPU. Groups, which the paper does not have, are rows of their own: their operations lie on one GPU,
 * in whatever slots. Size: about edges × slots × GPUs rows. Not reached by the product yet: used by `bench inference` and tests.
 */

import type { MilpTerm } from "../../lib/milp.ts";
import { MB, t, type Program } from "./milp-variables.ts";
import { listAt } from "./problem.ts";

/** (2) (3) (4): the slot of each node. */
export function nodeRows({ nodes, slots, row, x }: Program): void {
  const all = Array.from({ length: slots.last + 1 }, (_, j) => j);
  for (const [v, node] of nodes.entries()) {
    // (2) every node is in one slot
    row(
      `(2) ${v}`,
      all.map((j) => t(x(v, j))),
      [1, 1],
    );
    // (3) a fixed node lies in the first slot of its GPU
    if (node.fixedOn !== undefined) row(`(3) ${v}`, [t(x(v, node.fixedOn * slots.q + 1))], [1, 1]);
    // (4) operations are never in host memory
    if (node.kind === "operation") row(`(4) ${v}`, [t(x(v, 0))], [0, 0]);
  }
}

/** The operations of a group lie on one GPU. */
export function groupRows({ problem, nodes, slots, gpus, placed, row, x }: Program): void {
  const onGpu = (v: number, i: number, coefficient: number): MilpTerm[] =>
    placed.filter((j) => slots.gpuOf(j) === i).map((j) => t(x(v, j), coefficient));
  const leaders = new Map<number, number>();
  for (const [v, { kind, index, fixedOn, boundTo }] of nodes.entries()) {
    const first = kind === "operation" ? listAt(problem.together, index)[0] : undefined;
    if (first === undefined || fixedOn !== undefined) continue;
    const leader = leaders.get(first);
    leaders.set(first, leader ?? v);
    if (boundTo !== undefined) row(`(group) ${v}`, onGpu(v, boundTo, 1), [1, 1]);
    else if (leader !== undefined)
      for (const i of gpus)
        row(`(group) ${v} ${i}`, [...onGpu(v, i, 1), ...onGpu(leader, i, -1)], [0, 0]);
  }
}

/** (5) (7) (8) (9) (20): the rows of each edge. */
export function edgeRows(program: Program): void {
  const { nodes, edges, placed, row, atLeast, x, z, edgeIn, sgStart, nodeFin, infinity } = program;
  for (const [u, v] of edges) {
    if (nodes[u]?.kind === "parameter") {
      // (5) a parameter stays in host memory exactly when its readers read it directly
      const direct = placed.filter((j) => j % 2 === 1).map((j) => t(x(v, j), -1));
      row(`(5) ${u} ${v}`, [t(x(u, 0)), ...direct], [0, 0]);
    }
    for (const j of placed) {
      // (7) (8) with (6): a slot is contiguous
      if (z[u] !== undefined && z[v] !== undefined) {
        atLeast(`(7) ${u} ${v} ${j}`, [t(z[u](j)), t(z[v](j), -1)], 0);
        atLeast(`(8) ${u} ${v} ${j}`, [t(x(v, j)), t(x(u, j), -1), t(z[v](j), -1)], -1);
      }
      // (9) a slot has an incoming edge from a node outside of it
      const into = edgeIn[u]?.(j);
      if (into !== undefined)
        atLeast(`(9) ${u} ${v} ${j}`, [t(into), t(x(v, j), -1), t(x(u, j))], 0);
      // (20) a parameter and its reader in one slot: the copy comes first
      if (nodes[u]?.kind === "parameter")
        atLeast(
          `(20) ${u} ${v} ${j}`,
          [t(sgStart(j)), t(nodeFin[u] ?? 0, -1), t(x(u, j), -infinity), t(x(v, j), -infinity)],
          -2 * infinity,
        );
    }
  }
}

/** (6) (10) (19) (15) (16): the rows of each node in each slot. */
export function readinessRows(program: Program): void {
  const { nodes, placed, atLeast, x, z, edgeIn, nodeFin, sgStart, infinity } = program;
  for (const v of nodes.keys()) {
    for (const j of placed) {
      // (6) a slot is reachable from its nodes
      atLeast(`(6) ${v} ${j}`, [t(z[v]?.(j) ?? 0), t(x(v, j), -1)], 0);
      const into = edgeIn[v]?.(j);
      if (into !== undefined) {
        copyRows(program, v, j);
        // (19) all inputs are ready
        atLeast(
          `(19) ${v} ${j}`,
          [t(sgStart(j)), t(nodeFin[v] ?? 0, -1), t(into, -infinity)],
          -infinity,
        );
      }
      // (15) (16) the time when a node is ready
      const isOperation = nodes[v]?.kind === "operation";
      const end = isOperation ? program.sgFin(j) : program.dtFin(j);
      // A parameter that was there before waits for no copy.
      if (!isOperation && program.isFixed[v] === true) continue;
      atLeast(
        `${isOperation ? "(15)" : "(16)"} ${v} ${j}`,
        [t(nodeFin[v] ?? 0), t(end, -1), t(x(v, j), -infinity)],
        -infinity,
      );
    }
  }
}

/** (10): a node that is read in slot j must be copied there from another GPU that holds it. */
function copyRows(
  { slots, gpus, placed, atLeast, x, edgeIn, copyIn }: Program,
  v: number,
  j: number,
): void {
  for (const i of gpus) {
    const copy = copyIn[v]?.[i]?.(j);
    const into = edgeIn[v]?.(j);
    if (copy === undefined || into === undefined || i === slots.gpuOf(j)) continue;
    const there = placed.filter((each) => slots.gpuOf(each) === i).map((each) => t(x(v, each), -1));
    atLeast(`(10) ${v} ${i} ${j}`, [t(copy), ...there, t(into, -1)], -1);
  }
}

/** (11): the memory of each GPU holds its copied and placed nodes beside what was there. */
export function memoryRows({
  problem,
  state,
  nodes,
  slots,
  gpus,
  placed,
  ...program
}: Program): void {
  const { row, x, copyIn, size, isFixed } = program;
  for (const i of gpus) {
    const own = placed.filter((j) => slots.gpuOf(j) === i);
    const terms = nodes.flatMap((_, v) => [
      ...own.flatMap((j) =>
        gpus.flatMap((other) => {
          const copy = other === i ? undefined : copyIn[v]?.[other]?.(j);
          return copy === undefined ? [] : [t(copy, size[v])];
        }),
      ),
      ...(isFixed[v] === true ? [] : own.map((j) => t(x(v, j), size[v]))),
    ]);
    const room = (problem.memoryBytes[i] ?? 0) - (state.heldBytes[i] ?? 0);
    row(`(11) ${i}`, terms, [-Infinity, room / MB]);
  }
}

/** (12) to (14), (17), (18), (21) to (23): the times of each slot. */
export function slotRows(program: Program): void {
  const { nodes, slots, placed, row, atLeast, x, costs, total } = program;
  const { dtStart, dtFin, sgStart, sgFin } = program;
  for (const j of placed) {
    const parent = slots.parentDt.get(j);
    // (12) (13) the copies of a bus follow one another
    if (parent === undefined) {
      const begin = costs.busFinMs(j);
      row(`(12) ${j}`, [t(dtStart(j))], [begin, begin]);
    } else row(`(13) ${j}`, [t(dtStart(j)), t(dtFin(parent), -1)], [0, 0]);
    // (14) copies move their bytes over the bus
    const copied = nodes.flatMap((_, w) => {
      const ms = costs.copyMs(w, j);
      return ms === 0 ? [] : [t(x(w, j), -ms)];
    });
    row(`(14) ${j}`, [t(dtFin(j)), t(dtStart(j), -1), ...copied], [0, 0]);
    // (17) (18) the slots of a GPU follow one another
    if (j % slots.q === 1) atLeast(`(17) ${j}`, [t(sgStart(j))], costs.gpuFinMs(j));
    else atLeast(`(18) ${j}`, [t(sgStart(j)), t(sgFin(j - 1), -1)], 0);
    // (21) (22) copies from other GPUs, then kernels: even slots with copied parameters, odd ones with direct access
    const equation = j % 2 === 0 ? "(21)" : "(22)";
    row(`${equation} ${j}`, [t(sgFin(j)), t(sgStart(j), -1), ...workIn(program, j)], [0, 0]);
    // (23) the last slot of each GPU
    if (j % slots.q === 0) atLeast(`(23) ${j}`, [t(total), t(sgFin(j), -1)], 0);
  }
}

/** Fetches and kernels of a slot, as terms below 0. */
function workIn({ nodes, slots, gpus, costs, x, copyIn }: Program, j: number): MilpTerm[] {
  const gpu = slots.gpuOf(j);
  const fetched = nodes.flatMap((_, v) =>
    gpus.flatMap((i) => {
      const copy = i === gpu ? undefined : copyIn[v]?.[i]?.(j);
      return copy === undefined ? [] : [t(copy, -costs.fetchMs(v, i, j))];
    }),
  );
  const run = nodes.flatMap((_, v) => {
    const ms = costs.runMs(v, j);
    return ms === 0 ? [] : [t(x(v, j), -ms)];
  });
  return [...fetched, ...run];
}
