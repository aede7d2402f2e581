/** @file The plans that the search is compared with, by hand on small models. */

import { describe, expect, it } from "vitest";
import { allOn, IN_HOST, WITH_READER } from "../../../planning/inference/decisions.ts";
import { execute } from "../../../planning/inference/executor.ts";
import { planningProblem } from "../../../planning/inference/problem.ts";
import {
  copiesThenKernelsMs,
  deepPlanDecisions,
  fastestGpu,
  overlappedPlan,
  seriesMs,
  withDirect,
} from "../../../planning/inference/rivals.ts";
import { tinyGraph, tinyHost, tinyProblem, type TinyHost } from "./problems.ts";

/** A chain of four kernels of 1 ms, each with 10 MB: 1 ms of bus. */
const chain = tinyGraph(
  [0, 1, 2, 3].map((at) => ({ kernelMs: 1, parameters: [at], inputs: at === 0 ? [] : [at - 1] })),
  [10, 10, 10, 10],
);

describe("one GPU", () => {
  it("is the one with the least kernel time, the first of equals", () => {
    const fastestOf = (slowdown: readonly number[]): number =>
      fastestGpu(tinyProblem(chain, tinyHost({ buses: [0, 0, 1], slowdown })));
    expect([fastestOf([]), fastestOf([2, 1.5, 1.6]), fastestOf([2, 1, 1])]).toEqual([0, 1, 1]);
  });

  it("copies all, then computes all; what lies there already is not copied", () => {
    const host = tinyHost({ buses: [0, 1], slowdown: [1, 2] });
    const cold = tinyProblem(chain, host);
    expect([seriesMs(cold), seriesMs(cold, 1)]).toEqual([8, 12]);
    const options = { order: [0, 1, 2, 3], resident: [{ parameter: 2, gpu: 1 }] };
    const warm = planningProblem(chain, host, options);
    expect([seriesMs(warm), seriesMs(warm, 1)]).toEqual([8, 11]);
  });

  it("saves all kernels but one when copies and kernels overlap", () => {
    const problem = tinyProblem(chain, tinyHost({ buses: [0, 1] }));
    expect(execute(problem, overlappedPlan(problem)).latencyMs).toBeCloseTo(5, 9);
  });
});

describe("DeepPlan", () => {
  it.each<{ what: string; host: TinyHost; want: readonly number[] | undefined }>([
    {
      what: "lands the second half of the bytes on a GPU behind another bus",
      host: { buses: [0, 0, 1] },
      want: [WITH_READER, WITH_READER, 2, 2],
    },
    {
      what: "computes on a fastest GPU that has such a neighbour",
      host: { buses: [0, 1], slowdown: [2, 1] },
      want: [WITH_READER, WITH_READER, 0, 0],
    },
    { what: "does not exist behind one bus", host: { buses: [0, 0] }, want: undefined },
    {
      what: "does not exist where GPUs copy over their buses",
      host: { buses: [0, 1], peer: { kind: "pcie", peerGBs: 8 } },
      want: undefined,
    },
  ])("$what", ({ host, want }) => {
    const decisions = deepPlanDecisions(tinyProblem(chain, tinyHost(host)));
    expect(decisions && [...decisions.landing]).toEqual(want);
    if (decisions === undefined) return;
    expect(new Set(decisions.gpu).size).toBe(1);
  });

  it("takes the neighbour with the fastest link", () => {
    const host = tinyHost({ buses: [0, 1, 2], slowdown: [1, 2, 2] });
    const near = { kind: "nvlink", peerGBs: 100 } as const;
    const peers = host.peers.map((row, from) =>
      row.map((way, to) => (from === 0 && to === 2 ? near : way)),
    );
    const decisions = deepPlanDecisions(tinyProblem(chain, { ...host, peers }));
    expect([...(decisions?.landing ?? [])]).toEqual([WITH_READER, WITH_READER, 2, 2]);
  });
});

describe("direct host access", () => {
  it.each([
    { what: "half of its bytes at most", touchedMB: 5, want: IN_HOST },
    { what: "more than half of them", touchedMB: 5.1, want: WITH_READER },
  ])("of an operation that reads $what leaves the parameter at $want", ({ touchedMB, want }) => {
    const graph = tinyGraph([{ kernelMs: 1, parameters: [0], touchedMB }], [10]);
    const problem = tinyProblem(graph, tinyHost({ buses: [0] }));
    expect([...withDirect(problem, allOn(problem, 0)).landing]).toEqual([want]);
  });

  it("is not for a parameter that two operations read", () => {
    const reader = { kernelMs: 1, parameters: [0], touchedMB: 1 };
    const problem = tinyProblem(tinyGraph([reader, reader], [10]), tinyHost({ buses: [0] }));
    expect([...withDirect(problem, allOn(problem, 0)).landing]).toEqual([WITH_READER]);
  });
});

describe("copies and then kernels", () => {
  const pair = tinyGraph(
    [
      { kernelMs: 1, parameters: [0] },
      { kernelMs: 2, parameters: [1] },
    ],
    [20, 30],
  );

  it.each([
    { what: "over two buses side by side", buses: [0, 1], on: [0, 1], want: 3 + 2 },
    { what: "over one bus in turn", buses: [0, 0], on: [0, 1], want: 5 + 2 },
    { what: "on one GPU in series", buses: [0, 1], on: [0, 0], want: 5 + 3 },
  ])("take their time $what", ({ buses, on, want }) => {
    const problem = tinyProblem(pair, tinyHost({ buses }));
    const decisions = allOn(problem, 0);
    decisions.gpu.set(on);
    expect(copiesThenKernelsMs(problem, decisions, {})).toBeCloseTo(want, 9);
  });
});
