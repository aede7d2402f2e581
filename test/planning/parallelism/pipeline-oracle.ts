/** @file Small graphs of operators, and the slowest stage of the best of all their pipelines by trying every one. */

import fc from "fast-check";
import type { PipelineGraph } from "../../../planning/parallelism/pipeline-graph.ts";
import {
  bottleneckOf,
  checkPipeline,
  type PipelineTask,
} from "../../../planning/parallelism/pipeline-stages.ts";

interface Drawn {
  readonly works: readonly number[];
  readonly sizes: readonly number[];
  readonly tensors: readonly { readonly from: number; readonly to: readonly number[] }[];
  readonly room: number;
  readonly speeds: readonly number[];
}

/** Two or three stages of one to seven operators; `isChain` joins each operator to the next and to no other. */
export const smallTasks = (isChain = false): fc.Arbitrary<PipelineTask> =>
  fc
    .record({
      works: fc.array(fc.nat({ max: 9 }), { minLength: 1, maxLength: 7 }),
      sizes: fc.array(fc.nat({ max: 4 }), { minLength: 7, maxLength: 7 }),
      tensors: fc.array(
        fc.record({
          from: fc.nat({ max: 6 }),
          to: fc.array(fc.nat({ max: 6 }), { minLength: 1, maxLength: 3 }),
        }),
        { maxLength: 9 },
      ),
      room: fc.integer({ min: 4, max: 40 }),
      speeds: fc.array(fc.constantFrom(1, 2), { minLength: 2, maxLength: 3 }),
    })
    .map((drawn) => taskOf(drawn, isChain));

function taskOf({ works, sizes, tensors, room, speeds }: Drawn, isChain: boolean): PipelineTask {
  const rows = isChain
    ? works.slice(1).map((_, at) => ({ from: at, to: [at + 1] }))
    : tensors.map(({ from, to }) => ({ from, to: to.filter((each) => each > from) }));
  const found = rows.filter(
    ({ from, to }) => to.length > 0 && Math.max(from, ...to) < works.length,
  );
  const linked = (of: "after" | "before"): PipelineGraph["after"] =>
    works.map((_, at) => {
      const others = found.flatMap(({ from, to }) =>
        of === "after" ? (from === at ? to : []) : to.includes(at) ? [from] : [],
      );
      return [...new Set(others)].sort((a, b) => a - b);
    });
  return {
    graph: {
      members: works.map((_, at) => [at]),
      workMs: Float64Array.from(works),
      parameterBytes: Float64Array.from(works, (_, at) => sizes[at] ?? 0),
      keptBytes: Float64Array.from(works, (_, at) => sizes[6 - at] ?? 0),
      after: linked("after"),
      before: linked("before"),
      tensors: found.map(({ from, to }, at) => ({
        ends: [...new Set([from, ...to])],
        bytes: 1 + (sizes[at % 7] ?? 0),
      })),
    },
    stages: speeds.map((speed, stage) => ({
      ...{ speed, memoryBytes: room, msPerByte: 1 / (1 + stage) },
      inFlight: speeds.length - stage,
    })),
    heldPerParameterByte: 2,
  };
}

/** Undefined when there is none. */
export function bestBottleneck(task: PipelineTask): number | undefined {
  const count = task.graph.members.length;
  const stageOf = new Int32Array(count);
  let best: number | undefined;
  const place = (operator: number): void => {
    if (operator === count) {
      const cut = { stageOf, bottleneckMs: bottleneckOf(task, stageOf) };
      const isBetter = best === undefined || cut.bottleneckMs < best;
      if (isBetter && checkPipeline(task, cut) === undefined) best = cut.bottleneckMs;
      return;
    }
    for (let stage = 0; stage < task.stages.length; stage += 1) {
      stageOf[operator] = stage;
      place(operator + 1);
    }
  };
  place(0);
  return best;
}
