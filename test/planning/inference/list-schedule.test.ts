/** @file The list schedule on small models: where operations run and parameters land, and how ties fall. */

import { expect, it } from "vitest";
import { allOn, IN_HOST, WITH_READER } from "../../../planning/inference/decisions.ts";
import { listSchedule, type ListOptions } from "../../../planning/inference/list-schedule.ts";
import { tinyGraph, tinyHost, tinyProblem, type TinyHost, type TinyOperation } from "./problems.ts";

interface Row {
  readonly what: string;
  readonly operations: readonly TinyOperation[];
  readonly parameterMB?: readonly number[];
  readonly host: TinyHost;
  readonly options?: ListOptions;
  readonly wantGpu: readonly number[];
  readonly wantLanding?: readonly number[];
}

const readers = [
  { kernelMs: 1, parameters: [0] },
  { kernelMs: 1, parameters: [1] },
];
const two: TinyHost = { buses: [0, 1] };

const rows: readonly Row[] = [
  {
    what: "independent operations fill both GPUs",
    operations: [{ kernelMs: 1 }, { kernelMs: 1 }, { kernelMs: 1 }],
    host: two,
    wantGpu: [0, 1, 0],
  },
  {
    what: "the faster GPU is taken",
    operations: [{ kernelMs: 1 }],
    host: { ...two, slowdown: [3, 1] },
    wantGpu: [1],
  },
  {
    what: "parameters go over the emptier bus",
    operations: readers,
    parameterMB: [20, 20],
    host: two,
    wantGpu: [0, 1],
  },
  {
    what: "of two GPUs behind one bus the first is taken",
    operations: readers,
    parameterMB: [20, 20],
    host: { buses: [0, 0] },
    wantGpu: [0, 0],
  },
  {
    what: "of equal ends the GPU of the first input is taken",
    operations: [{ kernelMs: 1 }, { kernelMs: 1 }, { kernelMs: 1, inputs: [1] }],
    host: two,
    wantGpu: [0, 1, 1],
  },
  {
    what: "a large result keeps its reader",
    // 500 MB take 10 ms over the link; the GPU is busy for 4 ms.
    operations: [
      { kernelMs: 1, outputMB: 500 },
      { kernelMs: 4, inputs: [0] },
      { kernelMs: 1, inputs: [0] },
    ],
    host: two,
    wantGpu: [0, 0, 0],
  },
  {
    what: "a small result lets its reader go",
    operations: [
      { kernelMs: 1, outputMB: 50 },
      { kernelMs: 4, inputs: [0] },
      { kernelMs: 1, inputs: [0] },
    ],
    host: two,
    wantGpu: [0, 0, 1],
  },
  {
    what: "reluctance of more than the gain keeps it",
    operations: [
      { kernelMs: 1, outputMB: 50 },
      { kernelMs: 4, inputs: [0] },
      { kernelMs: 1, inputs: [0] },
    ],
    host: two,
    options: { reluctanceMs: 3.5 },
    wantGpu: [0, 0, 0],
  },
  {
    what: "only the given GPUs compute",
    operations: [{ kernelMs: 1 }, { kernelMs: 1 }],
    host: two,
    options: { computing: [1] },
    wantGpu: [1, 1],
  },
  {
    what: "a parameter lands on a neighbour when it arrives earlier by that way",
    operations: readers,
    parameterMB: [20, 20],
    host: two,
    options: { computing: [0], landing: [1] },
    wantGpu: [0, 0],
    wantLanding: [WITH_READER, 1],
  },
  {
    what: "a GPU without room for the parameter is passed over",
    operations: readers,
    parameterMB: [20, 20],
    host: two,
    options: { parameterRoom: Float64Array.of(19e6, 40e6) },
    wantGpu: [1, 1],
  },
];

it.each(rows)("$what", ({ operations, parameterMB = [], host, options, wantGpu, wantLanding }) => {
  const problem = tinyProblem(tinyGraph(operations, parameterMB), tinyHost(host));
  const { order, gpu, landing } = listSchedule(problem, options);
  expect([...order]).toEqual(operations.map((_, at) => at));
  expect([...gpu]).toEqual(wantGpu);
  expect([...landing]).toEqual(wantLanding ?? parameterMB.map(() => WITH_READER));
});

it("operations of a group follow their first one", () => {
  const graph = tinyGraph([{ kernelMs: 1 }, { kernelMs: 1 }, { kernelMs: 1 }]);
  const operations = graph.operations.map((each, at) =>
    at === 1 ? each : { ...each, group: "pair" },
  );
  const problem = tinyProblem({ ...graph, operations }, tinyHost({ buses: [0, 1, 2] }));
  expect([...listSchedule(problem).gpu]).toEqual([0, 1, 0]);
});

it("a parameter that stays in host memory takes no turn on the bus", () => {
  // Read directly, the first takes 2 ms of kernel, and the copy of the second arrives after 2 ms, not 4.
  const problem = tinyProblem(tinyGraph(readers, [20, 20]), tinyHost({ buses: [0, 0] }));
  const from = allOn(problem, 0);
  from.landing[0] = IN_HOST;
  const { gpu, landing } = listSchedule(problem, { from });
  expect([...gpu]).toEqual([0, 0]);
  expect([...landing]).toEqual([IN_HOST, WITH_READER]);
});
