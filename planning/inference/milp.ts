/**
 * @file Builds SortingHat's mixed-integer program of one submodel (§3.3).
 *
 * Nodes are the submodel's operations and parameters, and the results and parameters that earlier submodels left on the GPUs
 * (FixedNodes). `x` is the slot of each node; z, EdgeIn and CopyIn follow from it and are whole once x is whole, since their rows have
 * whole right-hand sides. Sizes are in MB, times in ms. A fixed node is neither copied nor counted again.
 * Size: (nodes × slots) binaries and about (edges × slots × GPUs) rows. Not reached by the product yet: used by `bench inference` and tests.
 */

import type { MilpProblem } from "../../lib/milp.ts";
import { adjustedCosts } from "./adjusted-costs.ts";
import {
  edgesOf,
  nodesOf,
  type MilpEdges,
  type MilpNode,
  type SubmodelState,
} from "./milp-nodes.ts";
import { edgeRows, groupRows, memoryRows, nodeRows, readinessRows, slotRows } from "./milp-rows.ts";
import { slotsFor, type Slots } from "./milp-slots.ts";
import { openProgram, type SlotCosts } from "./milp-variables.ts";
import type { PlanningProblem } from "./problem.ts";
import type { Submodel } from "./submodels.ts";

export interface SubmodelMilp {
  readonly milp: MilpProblem;
  readonly slots: Slots;
  readonly nodes: readonly MilpNode[];
  readonly edges: MilpEdges;
  readonly costs: SlotCosts;
  /** Variable of `x` for a node (by place in `nodes`) and a slot. */
  readonly x: (node: number, slot: number) => number;
  readonly sgStart: (slot: number) => number;
}

export interface MilpOptions {
  readonly state: SubmodelState;
  readonly q?: number;
  /** H: a latency that is known to be reachable, an upper bound on all times. The latency of all work in series when absent. */
  readonly horizonMs?: number;
}

export function submodelMilp(
  unadjusted: PlanningProblem,
  submodel: Submodel,
  { state, q = 6, horizonMs }: MilpOptions,
): SubmodelMilp {
  const problem = adjustedCosts(unadjusted);
  const slots = slotsFor(problem.busOf, q);
  const nodes = nodesOf(problem, submodel, state);
  const edges = edgesOf(problem, submodel, nodes);
  const program = openProgram({ problem, state, slots, nodes, edges, horizonMs });
  nodeRows(program);
  groupRows(program);
  edgeRows(program);
  readinessRows(program);
  memoryRows(program);
  slotRows(program);
  const { variables, rows, costs, x, sgStart } = program;
  // (1) minimise TotalLatency: the only variable with a cost
  const name = `submodel of ${nodes.length} nodes`;
  const milp = { name, sense: "minimise", variables, rows } as const;
  return { milp, slots, nodes, edges, costs, x, sgStart };
}
