/**
 * @file Reverse-mode gradients of a traced graph: adds the nodes that give the derivative of one scalar by each wanted value.
 *
 * One rule per operator (vector-Jacobian product). Values are numbered in the order in which they were made, so going down the
 * numbers visits every value after all that use it. The gradient of a broadcast is summed over the repeated axes. Cost: about two forward passes.
 */

import type { GraphBuilder, Shape, Value } from "./graph.ts";

/** In the order of `wanted`; of a value that does not matter to the loss the gradient is absent, and that is a bug. */
export function gradients(
  graph: GraphBuilder,
  loss: Value,
  wanted: readonly Value[],
): readonly Value[] {
  const gradientOf = new Map<number, Value>([[loss.id, graph.scalar(1)]]);
  const order = ancestors(loss);
  const matters = descendants(order, wanted);
  for (const value of order) {
    const gradient = gradientOf.get(value.id);
    if (gradient === undefined || value.made === undefined) continue;
    backward(graph, value, gradient).forEach((part, index) => {
      const source = value.made?.of[index];
      if (part === undefined || source === undefined || !matters.has(source.id)) return;
      const fitting = summedTo(graph, part, source.shape);
      const sum = gradientOf.get(source.id);
      gradientOf.set(source.id, sum === undefined ? fitting : graph.add(sum, fitting));
    });
  }
  return wanted.map((value) => {
    const gradient = gradientOf.get(value.id);
    if (gradient === undefined) throw new Error(`the loss does not depend on ${value.name}`);
    return gradient;
  });
}

/** The values that one of `wanted` has a part in: only to them the derivative is carried. */
function descendants(newestFirst: readonly Value[], wanted: readonly Value[]): ReadonlySet<number> {
  const found = new Set(wanted.map(({ id }) => id));
  for (const { id, made } of [...newestFirst].reverse()) {
    if (made?.of.some((source) => found.has(source.id))) found.add(id);
  }
  return found;
}

/** What the value was made of, the value itself first, the oldest last; pieces of the parameters are where it ends. */
function ancestors(value: Value): readonly Value[] {
  const found = new Map<number, Value>();
  const open = [value];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next.id)) continue;
    found.set(next.id, next);
    if (next.made !== undefined && next.made.op !== "slice") open.push(...next.made.of);
  }
  return [...found.values()].sort((a, b) => b.id - a.id);
}

function backward(graph: GraphBuilder, value: Value, given: Value): readonly (Value | undefined)[] {
  const { made } = value;
  if (made === undefined) return [];
  switch (made.op) {
    case "add":
      return [given, given];
    case "sub":
      return [given, graph.mul(given, graph.scalar(-1))];
    case "mul":
      return [graph.mul(given, made.of[1]), graph.mul(given, made.of[0])];
    case "div": {
      const share = graph.div(given, made.of[1]);
      return [share, graph.mul(graph.mul(share, value), graph.scalar(-1))];
    }
    case "min": {
      const toFirst = graph.whereAbove0(graph.sub(made.of[1], made.of[0]), given);
      return [toFirst, graph.sub(given, toFirst)];
    }
    case "matmul":
      return backwardMatmul(graph, made.of, given);
    case "relu":
      return [graph.whereAbove0(value, given)];
    case "sqrt":
      return [graph.div(graph.mul(given, graph.scalar(0.5)), value)];
    case "softmax": {
      const weighted = graph.mul(given, value);
      const total = graph.sum(weighted, [value.shape.length - 1]);
      return [graph.sub(weighted, graph.mul(value, total))];
    }
    case "normalise": {
      const along = graph.mul(value, graph.mean(graph.mul(given, value)));
      const rest = graph.sub(graph.sub(given, graph.mean(given)), along);
      return [graph.mul(made.inverse, rest)];
    }
    case "reshape":
      return [graph.reshape(given, made.of[0].shape)];
    case "transpose":
      return [
        graph.transpose(
          given,
          made.order.map((_, axis) => made.order.indexOf(axis)),
        ),
      ];
    case "sum":
      return [graph.spread(given, made.of[0])];
    case "slice":
      return [undefined];
  }
}

function backwardMatmul(
  graph: GraphBuilder,
  [a, b]: readonly [Value, Value],
  given: Value,
): readonly Value[] {
  const toA = graph.matmul(given, swapped(graph, b));
  if (b.shape.length > 2 || a.shape.length === 2)
    return [toA, graph.matmul(swapped(graph, a), given)];
  // A plain matrix met by a batch: all rows of the batch at once.
  const rowsOfA = graph.reshape(a, ["rows", a.shape.at(-1) ?? 1]);
  const rowsOfGiven = graph.reshape(given, ["rows", given.shape.at(-1) ?? 1]);
  return [toA, graph.matmul(swapped(graph, rowsOfA), rowsOfGiven)];
}

/** The last two axes change places. */
function swapped(graph: GraphBuilder, value: Value): Value {
  const axes = value.shape.map((_, axis) => axis);
  return graph.transpose(value, [...axes.slice(0, -2), axes.length - 1, axes.length - 2]);
}

/** Sums over the axes that the operator had spread. */
function summedTo(graph: GraphBuilder, value: Value, shape: Shape): Value {
  const added = value.shape.length - shape.length;
  const axes = value.shape.flatMap((size, axis) =>
    axis < added || (shape[axis - added] === 1 && size !== 1) ? [axis] : [],
  );
  if (axes.length === 0) return value;
  const sum = graph.sum(value, axes);
  return added === 0 ? sum : graph.reshape(sum, shape);
}
