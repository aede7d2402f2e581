/**
 * @file Joins several models into one graph with several outputs: planned together, they share buses and GPUs (SortingHat §6).
 *
 * Operations stand side by side in the given order and keep their costs; names are prefixed with the place of their model, so a model may
 * come twice. Each model has its own parameters. Cost: one pass.
 */

import type { OperatorGraph } from "../../domain/model/operator-graph.ts";

export function joinedGraph(graphs: readonly OperatorGraph[]): OperatorGraph {
  const [only] = graphs;
  if (only !== undefined && graphs.length === 1) return only;
  let operationsBefore = 0;
  let parametersBefore = 0;
  const parts = graphs.map(({ operations, parameters }, at) => {
    const [operation, parameter] = [operationsBefore, parametersBefore];
    operationsBefore += operations.length;
    parametersBefore += parameters.length;
    const named = (name: string): string => `${at + 1}:${name}`;
    return {
      parameters: parameters.map((each) => ({ ...each, id: named(each.id) })),
      operations: operations.map((each) => ({
        ...each,
        id: named(each.id),
        inputs: each.inputs.map((input) => input + operation),
        parameters: each.parameters.map((read) => read + parameter),
        ...(each.group !== undefined && { group: named(each.group) }),
      })),
    };
  });
  return {
    name: graphs.map(({ name }) => name).join(" and "),
    parameters: parts.flatMap((part) => part.parameters),
    operations: parts.flatMap((part) => part.operations),
  };
}
