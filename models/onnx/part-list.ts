/**
 * @file From a plan's queues of operations to the parts that really run: how many operations each runs at once.
 *
 * Every run of a part costs something by itself, and every cut loses the fusion of operators across it; a part that is too large
 * waits for inputs that its first operations do not need, and keeps results back that others wait for. Starts with cuts exactly
 * where values cross between GPUs, which delays nothing, then joins neighbours of one queue, the first pair first, while the
 * expected time does not grow and no two parts wait for each other. Cost: parts² evaluations of O(parts + edges), at most
 * `MOST_EVALUATIONS`; ties go to fewer parts.
 */

import type { InferencePlan } from "../../domain/model/inference-plan.ts";
import type { OperatorGraph } from "../../domain/model/operator-graph.ts";

interface RunPart {
  readonly gpu: number;
  /** Indices of operations. */
  readonly operations: readonly number[];
}

export interface RunCosts {
  /** A request beside its parts: begun by the caller, answered to it. */
  readonly requestMs: number;
  /** What running a part costs beside its operations. */
  readonly partMs: number;
  /** Handing a value to another GPU: beside its bytes, and for each byte. */
  readonly handMs: number;
  readonly handMsPerByte: number;
  /** How many times as long operations take while other GPUs work, too; 1 where GPUs share nothing. */
  readonly besideFactor: number;
  /** By operation. */
  readonly operationMs: readonly number[];
}

export interface PartList {
  /** In an order in which they can run. */
  readonly parts: readonly RunPart[];
  readonly expectedMs: number;
}

const MOST_EVALUATIONS = 20_000;

export function partList(graph: OperatorGraph, plan: InferencePlan, costs: RunCosts): PartList {
  let queues = plan.gpuQueues.map((queue, gpu) =>
    cutWhereValuesCross(
      graph,
      gpu,
      queue.flatMap(({ operations }) => operations),
    ),
  );
  let best = timedParts(graph, queues, costs);
  if (best === undefined) throw new Error("the queues of a plan wait for each other");
  let evaluations = 0;
  for (let gpu = 0; gpu < queues.length; gpu += 1) {
    for (let at = 0; at + 1 < (queues[gpu]?.length ?? 0);) {
      const joined = queues.map((queue, other) => (other === gpu ? joinedAt(queue, at) : queue));
      evaluations += 1;
      const timed = evaluations > MOST_EVALUATIONS ? undefined : timedParts(graph, joined, costs);
      if (timed !== undefined && timed.expectedMs <= best.expectedMs) {
        best = timed;
        queues = joined;
      } else at += 1;
    }
  }
  return best;
}

/** The same of parts that have been timed themselves: `partMs` by place in `parts`, in their order. */
export function retimedMs(
  graph: OperatorGraph,
  parts: readonly RunPart[],
  { partMs, costs }: { readonly partMs: readonly number[]; readonly costs: RunCosts },
): number {
  const gpus = 1 + Math.max(...parts.map(({ gpu }) => gpu));
  const queues = Array.from({ length: gpus }, (_, gpu) => parts.filter((part) => part.gpu === gpu));
  const operationMs = graph.operations.map(() => 0);
  parts.forEach(({ operations: [first = 0] }, at) => {
    // The call of the runtime, which was timed as well, is among what each part costs.
    operationMs[first] = Math.max(0, (partMs[at] ?? 0) - costs.partMs);
  });
  const timed = timedParts(graph, queues, { ...costs, operationMs });
  if (timed === undefined) throw new Error("parts wait for each other");
  return timed.expectedMs;
}

type Queue = readonly RunPart[];

function cutWhereValuesCross(
  { operations }: OperatorGraph,
  gpu: number,
  queue: readonly number[],
): Queue {
  const own = new Set(queue);
  const readElsewhere = new Set(
    operations.flatMap(({ inputs }, reader) =>
      own.has(reader) ? [] : inputs.filter((input) => own.has(input)),
    ),
  );
  const parts: { gpu: number; operations: number[] }[] = [];
  let open: number[] | undefined;
  for (const operation of queue) {
    const waits = operations[operation]?.inputs.some((input) => !own.has(input)) ?? false;
    if (open === undefined || waits) {
      open = [];
      parts.push({ gpu, operations: open });
    }
    open.push(operation);
    if (readElsewhere.has(operation)) open = undefined;
  }
  return parts;
}

function joinedAt(queue: Queue, at: number): Queue {
  const [first, second] = [queue[at], queue[at + 1]];
  if (first === undefined || second === undefined) return queue;
  const joined = { gpu: first.gpu, operations: [...first.operations, ...second.operations] };
  return [...queue.slice(0, at), joined, ...queue.slice(at + 2)];
}

/** The parts as ready queues run them; undefined when some wait for each other. */
function timedParts(
  { operations }: OperatorGraph,
  queues: readonly Queue[],
  costs: RunCosts,
): PartList | undefined {
  const partOf = new Map<number, RunPart>();
  for (const part of queues.flat()) for (const one of part.operations) partOf.set(one, part);
  const endMs = new Map<RunPart, number>();
  const next = queues.map(() => 0);
  const freeMs = queues.map(() => 0);
  const parts: RunPart[] = [];
  const slowdown = queues.filter(({ length }) => length > 0).length > 1 ? costs.besideFactor : 1;
  const readyMs = (part: RunPart): number | undefined => {
    let ready = 0;
    for (const operation of part.operations) {
      for (const input of operations[operation]?.inputs ?? []) {
        const maker = partOf.get(input);
        if (maker === undefined || maker === part) continue;
        const made = endMs.get(maker);
        if (made === undefined) return undefined;
        const bytes = operations[input]?.outputBytes ?? 0;
        const hand = maker.gpu === part.gpu ? 0 : costs.handMs + bytes * costs.handMsPerByte;
        ready = Math.max(ready, made + hand);
      }
    }
    return ready;
  };
  for (let moved = true; moved;) {
    moved = false;
    for (const [gpu, queue] of queues.entries()) {
      for (;;) {
        const part = queue[next[gpu] ?? 0];
        const ready = part && readyMs(part);
        if (part === undefined || ready === undefined) break;
        const tookMs = part.operations.reduce(
          (sum, operation) => sum + (costs.operationMs[operation] ?? 0) * slowdown,
          costs.partMs,
        );
        const end = Math.max(ready, freeMs[gpu] ?? 0) + tookMs;
        endMs.set(part, end);
        freeMs[gpu] = end;
        next[gpu] = (next[gpu] ?? 0) + 1;
        parts.push(part);
        moved = true;
      }
    }
  }
  if (parts.length < queues.flat().length) return undefined;
  return { parts, expectedMs: costs.requestMs + Math.max(0, ...freeMs) };
}
