/**
 * @file Computes all variables of the MILP from the slots of its nodes: for a warm start, and to check a solver's answer.
 *
 * Times follow from equations 12 to 23 by relaxation: the start of a slot is raised until no time changes. The times of slots that wait
 * for each other never settle; they stay as they are, and the check of the answer refuses them. Cost: O(slots × nodes × edges).
 * Not reached by the product yet: used by `bench inference` and tests.
 */

import type { SubmodelMilp } from "./milp.ts";

/** `slotOf`: by place in `nodes`. */
export function slotValues(
  { milp, slots, nodes, edges, costs }: SubmodelMilp,
  slotOf: readonly number[],
): number[] {
  const values = new Array<number>(milp.variables.length).fill(0);
  const at = new Map(milp.variables.map(({ name }, index) => [name, index]));
  const set = (name: string, value: number): void => {
    const index = at.get(name);
    if (index !== undefined) values[index] = value;
  };
  const placed = Array.from({ length: slots.last }, (_, slot) => slot + 1);
  const into = new Set<string>();
  const copies = new Set<string>();
  for (const [v, slot] of slotOf.entries()) set(`x ${v} ${slot}`, 1);
  for (const [u, v] of edges) {
    const [from, to] = [slotOf[u] ?? 0, slotOf[v] ?? 0];
    if (from === to || to === 0) continue;
    into.add(`${u} ${to}`);
    set(`EdgeIn ${u} ${to}`, 1);
    if (from === 0 || slots.gpuOf(from) === slots.gpuOf(to)) continue;
    copies.add(`${u} ${to}`);
    set(`CopyIn ${u} ${slots.gpuOf(from)} ${to}`, 1);
  }
  // A reader has a later place than its inputs, and parameters stand before operations.
  const reach = nodes.map((_, v) => new Set(slotOf[v] === 0 ? [] : [slotOf[v] ?? 0]));
  for (const [u, v] of [...edges].sort((a, b) => b[1] - a[1]))
    for (const slot of reach[v] ?? []) reach[u]?.add(slot);
  for (const [v, reached] of reach.entries()) for (const slot of reached) set(`z ${v} ${slot}`, 1);

  const dtFin = new Array<number>(slots.last + 1).fill(0);
  const turns = [...placed].sort((a, b) => ((a - 1) % slots.q) - ((b - 1) % slots.q) || a - b);
  for (const j of turns) {
    const parent = slots.parentDt.get(j);
    const begin = parent === undefined ? costs.busFinMs(j) : (dtFin[parent] ?? 0);
    let end = begin;
    for (const [w, slot] of slotOf.entries()) if (slot === j) end += costs.copyMs(w, j);
    dtFin[j] = end;
    set(`DTStart ${j}`, begin);
    set(`DTFin ${j}`, end);
  }
  const start = new Array<number>(slots.last + 1).fill(0);
  const fin = new Array<number>(slots.last + 1).fill(0);
  const ready = (v: number): number => {
    const slot = slotOf[v] ?? 0;
    if (nodes[v]?.kind === "operation") return fin[slot] ?? 0;
    return slot === 0 || nodes[v]?.fixedOn !== undefined ? 0 : (dtFin[slot] ?? 0);
  };
  for (let round = 0, isRising = true; isRising && round <= slots.last + 1; round += 1) {
    isRising = false;
    for (const j of placed) {
      let begin = j % slots.q === 1 ? costs.gpuFinMs(j) : (fin[j - 1] ?? 0);
      let took = 0;
      for (const [v, slot] of slotOf.entries()) {
        if (slot === j) took += costs.runMs(v, j);
        if (into.has(`${v} ${j}`)) begin = Math.max(begin, ready(v));
        if (copies.has(`${v} ${j}`)) took += costs.fetchMs(v, slots.gpuOf(slot), j);
      }
      for (const [u, v] of edges)
        if (nodes[u]?.kind === "parameter" && slotOf[u] === j && slotOf[v] === j)
          begin = Math.max(begin, ready(u));
      if (begin !== start[j] || begin + took !== fin[j]) isRising = true;
      start[j] = begin;
      fin[j] = begin + took;
    }
  }
  for (const j of placed) {
    set(`SGStart ${j}`, start[j] ?? 0);
    set(`SGFin ${j}`, fin[j] ?? 0);
  }
  for (const v of nodes.keys()) set(`NodeFin ${v}`, ready(v));
  set("TotalLatency", Math.max(...fin));
  return values;
}
