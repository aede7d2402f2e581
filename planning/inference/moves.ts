/**
 * @file The changes that the search tries, each with its undo.
 *
 * Models repeat layers, so a change that helps one operation mostly helps all of its kind: beside single operations and runs of the order,
 * moves change a whole class (operations of equal kind, times and sizes) at once, everywhere, from one place on, or at every second place.
 * Each move records its changes in a journal.
 */

import type { Random } from "../../lib/random.ts";
import { IN_HOST, WITH_READER, type Decisions } from "./decisions.ts";
import { listAt, type PlanningProblem } from "./problem.ts";

export interface Mover {
  /** Changes the decisions; false when the draw changed nothing. */
  readonly move: (random: Random) => boolean;
  readonly undo: () => void;
}

const LONGEST_SHIFT = 24;

export function mover(problem: PlanningProblem, decisions: Decisions): Mover {
  const { operationCount, gpuCount } = problem;
  const { order, gpu, landing } = decisions;
  const position = new Int32Array(operationCount);
  for (const [at, operation] of order.entries()) position[operation] = at;
  const classes = classesOf(problem);
  const withParameters = order.filter((each) => listAt(problem.parametersOf, each).length > 0);
  let changed: (() => void)[] = [];

  const setOne = (operation: number, to: number): void => {
    const before = gpu[operation] ?? 0;
    if (before === to) return;
    gpu[operation] = to;
    changed.push(() => (gpu[operation] = before));
  };
  /** A group moves as one. */
  const setGpu = (operation: number, to: number): void => {
    const group = listAt(problem.together, operation);
    if (group.length === 0) setOne(operation, to);
    else for (const each of group) setOne(each, to);
  };
  const setLanding = (parameter: number, to: number): void => {
    const before = landing[parameter] ?? WITH_READER;
    if (before === to) return;
    landing[parameter] = to;
    changed.push(() => (landing[parameter] = before));
  };
  const place = (operation: number, at: number): void => {
    order[at] = operation;
    position[operation] = at;
  };
  const shift = (operation: number, to: number): void => {
    const from = position[operation] ?? 0;
    const step = to > from ? 1 : -1;
    for (let at = from; at !== to; at += step) place(order[at + step] ?? 0, at);
    place(operation, to);
  };

  /** Some of the operations like this one. */
  const alike = (operation: number, random: Random): readonly number[] => {
    const all = classes.members[classes.of[operation] ?? 0] ?? [operation];
    const here = all.indexOf(operation);
    switch (random.below(4)) {
      case 0:
        return all;
      case 1:
        return all.slice(here);
      case 2: {
        const step = 2 + random.below(Math.max(1, gpuCount - 1));
        return all.filter((_, at) => (at - here) % step === 0);
      }
      default:
        return all.slice(here, here + 1 + random.below(8));
    }
  };
  const some = (random: Random): number => random.below(operationCount);

  const moves: readonly ((random: Random) => void)[] = [
    (random) => setGpu(some(random), random.below(gpuCount)),
    (random) => {
      const operation = some(random);
      const near = [...listAt(problem.inputs, operation), ...listAt(problem.readers, operation)];
      const other = near[random.below(Math.max(1, near.length))];
      if (other !== undefined) setGpu(operation, gpu[other] ?? 0);
    },
    (random) => {
      const length = 1 + Math.floor(random.unit() ** 3 * operationCount);
      const from = some(random);
      const to = random.below(gpuCount);
      for (let at = from; at < Math.min(operationCount, from + length); at += 1)
        setGpu(order[at] ?? 0, to);
    },
    (random) => {
      const to = random.below(gpuCount);
      for (const operation of alike(some(random), random)) setGpu(operation, to);
    },
    (random) => {
      // From a random position on, two GPUs exchange their operations.
      const [a, b] = [random.below(gpuCount), random.below(gpuCount)];
      for (let at = some(random); at < operationCount; at += 1) {
        const operation = order[at] ?? 0;
        if (gpu[operation] === a) setGpu(operation, b);
        else if (gpu[operation] === b) setGpu(operation, a);
      }
    },
    (random) => {
      const operation = some(random);
      const from = position[operation] ?? 0;
      let low = Math.max(0, from - LONGEST_SHIFT);
      let high = Math.min(operationCount - 1, from + LONGEST_SHIFT);
      for (const input of listAt(problem.inputs, operation))
        low = Math.max(low, (position[input] ?? 0) + 1);
      for (const reader of listAt(problem.readers, operation))
        high = Math.min(high, (position[reader] ?? 0) - 1);
      const to = low + random.below(Math.max(1, high - low + 1));
      if (to === from) return;
      shift(operation, to);
      changed.push(() => shift(operation, from));
    },
    (random) => {
      const reader = withParameters[random.below(Math.max(1, withParameters.length))];
      if (reader === undefined) return;
      const draw = random.below(gpuCount + 2);
      const to = draw === gpuCount ? WITH_READER : draw;
      const only = random.below(3);
      for (const operation of random.below(2) === 0 ? [reader] : alike(reader, random)) {
        for (const [at, parameter] of listAt(problem.parametersOf, operation).entries()) {
          // All parameters of the operation, or the one at this place.
          if (draw > gpuCount || landing[parameter] === IN_HOST || (only > 0 && at !== only - 1))
            continue;
          setLanding(parameter, to);
        }
        if (draw === gpuCount + 1) toggleDirect(operation);
      }
    },
  ];
  /** All parameters of an operation go to host memory, or come out of it; those that others read too stay as they are. */
  const toggleDirect = (operation: number): void => {
    const own = listAt(problem.parametersOf, operation);
    if (own.some((each) => listAt(problem.readersOfParameter, each).length > 1)) return;
    const to = landing[own[0] ?? 0] === IN_HOST ? WITH_READER : IN_HOST;
    for (const parameter of own) setLanding(parameter, to);
  };

  return {
    move: (random) => {
      changed = [];
      moves[random.below(moves.length)]?.(random);
      return changed.length > 0;
    },
    undo: () => {
      for (let at = changed.length - 1; at >= 0; at -= 1) changed[at]?.();
      changed = [];
    },
  };
}

/** Operations that cost the same and hand on the same are one class. */
function classesOf(problem: PlanningProblem): {
  readonly of: Int32Array;
  readonly members: readonly (readonly number[])[];
} {
  const of = new Int32Array(problem.operationCount);
  const members: number[][] = [];
  const known = new Map<string, number>();
  for (let operation = 0; operation < problem.operationCount; operation += 1) {
    const kind = problem.graph.operations[problem.graphIndex[operation] ?? 0]?.kind ?? "";
    const own = listAt(problem.parametersOf, operation);
    const ownBytes = own.reduce((sum, each) => sum + (problem.parameterBytes[each] ?? 0), 0);
    const inputs = listAt(problem.inputs, operation).map((input) => operation - input);
    const key = [
      kind,
      problem.kernelMs[operation * problem.gpuCount],
      ownBytes,
      problem.outputBytes[operation],
      inputs.join(" "),
    ].join("|");
    const at = known.get(key) ?? members.length;
    known.set(key, at);
    of[operation] = at;
    const list = members[at] ?? [];
    list.push(operation);
    members[at] = list;
  }
  return { of, members };
}
