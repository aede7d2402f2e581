/** @file The variables of a submodel's MILP: their number, bounds and names, and the costs of each slot. */

import { describe, expect, it } from "vitest";
import { edgesOf, nodesOf, type SubmodelState } from "../../../planning/inference/milp-nodes.ts";
import { slotsFor } from "../../../planning/inference/milp-slots.ts";
import { openProgram, t } from "../../../planning/inference/milp-variables.ts";
import { diamond, emptyState, whole } from "./milp-problems.ts";

const Q = 2;
const SLOTS = 2 * Q;
const NODES = 6;

function opened(state: SubmodelState = emptyState, horizonMs?: number) {
  const nodes = nodesOf(diamond, whole, state);
  const edges = edgesOf(diamond, whole, nodes);
  const slots = slotsFor(diamond.busOf, Q);
  return openProgram({ problem: diamond, state, slots, nodes, edges, horizonMs });
}

describe("the variables", () => {
  it("are a whole x for each node and slot and host memory, and real ones for all that follows", () => {
    const { variables } = opened();
    const choices = variables.filter(({ isInteger }) => isInteger);
    expect(choices).toHaveLength(NODES * (SLOTS + 1));
    expect(choices.every(({ name }) => name.startsWith("x "))).toBe(true);
    expect(choices.every(({ lower, upper }) => lower === 0 && upper === 1)).toBe(true);
    // Four times a slot, NodeFin, the total, z; the last operation has no reader, so no EdgeIn and no CopyIn.
    const readers = NODES - 1;
    const others = 4 * SLOTS + NODES + 1 + NODES * SLOTS + readers * SLOTS * (1 + 2);
    expect(variables).toHaveLength(choices.length + others);
    expect(new Set(variables.map(({ name }) => name)).size).toBe(variables.length);
  });

  it("are found by what they are for", () => {
    const program = opened();
    const nameOf = (variable: number | undefined) => program.variables[variable ?? -1]?.name;
    expect(nameOf(program.x(3, 4))).toBe("x 3 4");
    expect(nameOf(program.dtStart(1))).toBe("DTStart 1");
    expect(nameOf(program.dtFin(2))).toBe("DTFin 2");
    expect(nameOf(program.sgStart(3))).toBe("SGStart 3");
    expect(nameOf(program.sgFin(4))).toBe("SGFin 4");
    expect(nameOf(program.nodeFin[5])).toBe("NodeFin 5");
    expect(nameOf(program.z[2]?.(1))).toBe("z 2 1");
    expect(nameOf(program.edgeIn[0]?.(4))).toBe("EdgeIn 0 4");
    expect(nameOf(program.copyIn[0]?.[1]?.(3))).toBe("CopyIn 0 1 3");
    expect([program.edgeIn[5], program.copyIn[5]]).toEqual([undefined, undefined]);
  });

  it("cost nothing but the total, and end at the horizon", () => {
    const { variables, total, sgFin, infinity } = opened(emptyState, 40);
    expect(infinity).toBe(40);
    expect(variables.flatMap(({ cost }, at) => (cost === 0 ? [] : [at]))).toEqual([total]);
    expect([variables[total]?.upper, variables[sgFin(1)]?.upper]).toEqual([40, 40]);
  });
});

it("rows are kept as they are written; at least is open above", () => {
  const { rows, row, atLeast } = opened();
  row("between", [t(1), t(2, -3)], [0, 4]);
  atLeast("more", [t(1)], 5);
  expect(rows).toEqual([
    {
      name: "between",
      terms: [
        { variable: 1, coefficient: 1 },
        { variable: 2, coefficient: -3 },
      ],
      lower: 0,
      upper: 4,
    },
    { name: "more", terms: [{ variable: 1, coefficient: 1 }], lower: 5, upper: Infinity },
  ]);
});

describe("the costs of a slot", () => {
  // Nodes: parameters of 20 and 30 MB, then four operations with results of 2, 2, 2 and 1 MB.
  it.each<{ what: string; cost: (of: ReturnType<typeof opened>["costs"]) => number; want: number }>(
    [
      { what: "copies a parameter over its bus", cost: ({ copyMs }) => copyMs(1, 3), want: 3 },
      { what: "copies no operation", cost: ({ copyMs }) => copyMs(2, 3), want: 0 },
      {
        what: "fetches a result over the link",
        cost: ({ fetchMs }) => fetchMs(2, 1, 1),
        want: 0.04,
      },
      {
        what: "fetches nothing from its own GPU",
        cost: ({ fetchMs }) => fetchMs(2, 0, 1),
        want: 0,
      },
      { what: "runs with copied parameters when even", cost: ({ runMs }) => runMs(4, 2), want: 2 },
      { what: "runs with direct access when odd", cost: ({ runMs }) => runMs(4, 1), want: 3 },
      { what: "runs no parameter", cost: ({ runMs }) => runMs(0, 2), want: 0 },
    ],
  )("$what", ({ cost, want }) => {
    expect(cost(opened().costs)).toBeCloseTo(want, 9);
  });

  it("begins when the bus and the GPU of earlier submodels are free", () => {
    const { costs } = opened({ ...emptyState, busFinMs: [3, 4], gpuFinMs: [5, 6] });
    const begins = [1, 2, 3, 4].map((slot) => [costs.busFinMs(slot), costs.gpuFinMs(slot)]);
    expect(begins).toEqual([
      [3, 5],
      [3, 5],
      [4, 6],
      [4, 6],
    ]);
  });

  it("is nothing for a node that is fixed", () => {
    const { costs, isFixed, size } = opened({ ...emptyState, parameterOn: new Map([[1, 0]]) });
    expect(isFixed).toEqual([false, true, false, false, false, false]);
    expect(costs.copyMs(1, 3)).toBe(0);
    expect(size).toEqual([20, 30, 2, 2, 2, 1]);
  });
});
