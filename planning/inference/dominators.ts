/**
 * @file Immediate dominators of the operations of a graph, and the operations that every path to the output passes.
 *
 * Cooper, Harvey and Kennedy's iteration ("A Simple, Fast Dominance Algorithm") in topological order: without cycles the first round
 * settles every node, so one round suffices. Operations without inputs follow a virtual entry, operations without readers lead to a
 * virtual exit. Cost: O(edges × depth of the tree).
 * Not reached by the product yet: used by `bench inference` and tests.
 */

import { listAt, type Lists } from "./problem.ts";

/** The virtual entry: the immediate dominator of an operation that no operation dominates. */
export const ENTRY = -1;

export interface AcyclicGraph {
  readonly operationCount: number;
  /** Inputs of each operation; they have lower numbers than the operation. */
  readonly inputs: Lists;
  readonly readers: Lists;
}

export interface Dominators {
  /** By operation. */
  readonly immediate: Int32Array;
  /** The dominators of the exit, first to last: the partition nodes of SortingHat §3.1, with the output if there is only one. */
  readonly chain: readonly number[];
}

export function dominators({ operationCount, inputs, readers }: AcyclicGraph): Dominators {
  const immediate = new Int32Array(operationCount);
  const meet = (a: number, b: number): number => {
    let [left, right] = [a, b];
    while (left !== right) {
      if (left > right) left = immediate[left] ?? ENTRY;
      else right = immediate[right] ?? ENTRY;
    }
    return left;
  };
  for (let operation = 0; operation < operationCount; operation += 1)
    immediate[operation] = meetAll(listAt(inputs, operation), meet);
  const outputs: number[] = [];
  for (let operation = 0; operation < operationCount; operation += 1)
    if (listAt(readers, operation).length === 0) outputs.push(operation);
  const chain: number[] = [];
  for (let at = meetAll(outputs, meet); at !== ENTRY; at = immediate[at] ?? ENTRY) chain.push(at);
  return { immediate, chain: chain.reverse() };
}

function meetAll(nodes: Iterable<number>, meet: (a: number, b: number) => number): number {
  let found: number | undefined;
  for (const node of nodes) found = found === undefined ? node : meet(found, node);
  return found ?? ENTRY;
}
