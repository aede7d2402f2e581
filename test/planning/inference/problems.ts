/** @file Small planning problems for the tests of the inference planner. */

import type { InferenceHost, PeerWay } from "../../../domain/model/inference-host.ts";
import type { InferencePlan } from "../../../domain/model/inference-plan.ts";
import type { OperatorGraph } from "../../../domain/model/operator-graph.ts";
import { randomFrom } from "../../../lib/random.ts";
import { allOn, planOf } from "../../../planning/inference/decisions.ts";
import { planningProblem, type PlanningProblem } from "../../../planning/inference/problem.ts";

export interface TinyOperation {
  readonly inputs?: readonly number[];
  readonly parameters?: readonly number[];
  readonly kernelMs: number;
  readonly outputMB?: number;
  /** MB that direct host access reads; all when absent. */
  readonly touchedMB?: number;
}

export function tinyGraph(
  operations: readonly TinyOperation[],
  parameterMB: readonly number[] = [],
): OperatorGraph {
  return {
    name: "tiny",
    parameters: parameterMB.map((mb, at) => ({ id: `w${at}`, bytes: mb * 1e6 })),
    operations: operations.map(
      ({ inputs = [], parameters = [], kernelMs, outputMB = 0, touchedMB }, at) => ({
        id: `o${at}`,
        kind: "Tiny",
        inputs,
        parameters,
        outputBytes: outputMB * 1e6,
        flops: 0,
        movedBytes: 0,
        ...(touchedMB !== undefined && { touchedParameterBytes: touchedMB * 1e6 }),
        measured: [{ device: "GPU", kernelMs }],
      }),
    ),
  };
}

export interface TinyHost {
  /** Bus of each GPU. */
  readonly buses: readonly number[];
  readonly busGBs?: number;
  readonly peer?: PeerWay;
  readonly slowdown?: readonly number[];
  readonly memoryGiB?: number;
  readonly copyUs?: number;
}

export function tinyHost({
  buses,
  busGBs = 10,
  peer = { kind: "nvlink", peerGBs: 50 },
  slowdown = [],
  memoryGiB = 16,
  copyUs = 0,
}: TinyHost): InferenceHost {
  const device = {
    kind: "GPU",
    peakTflops: 10,
    gemmShare: 1,
    memoryGBs: 1000,
    memoryShare: 1,
    launchUs: 0,
    memoryGiB,
  };
  return {
    name: "tiny",
    buses: [...new Set(buses)].map((bus) => ({ name: `bus${bus}`, busGBs })),
    gpus: buses.map((bus, at) => ({ name: `GPU${at}`, device, slowdown: slowdown[at] ?? 1, bus })),
    peers: buses.map((_, a) => buses.map((__, b) => (a === b ? { kind: "self" } : peer))),
    copyUs,
  };
}

export function tinyProblem(graph: OperatorGraph, host: InferenceHost): PlanningProblem {
  return planningProblem(graph, host, { order: graph.operations.map((_, at) => at) });
}

/** 4 to 12 operations with branches and parameters on two GPUs. */
/** Two operations of a millisecond, each with 20 MB of parameters, on a GPU each of these buses. */
export function oneEach(buses: readonly number[]): {
  readonly problem: PlanningProblem;
  readonly plan: InferencePlan;
} {
  const graph = tinyGraph(
    [
      { kernelMs: 1, parameters: [0] },
      { kernelMs: 1, parameters: [1] },
    ],
    [20, 20],
  );
  const problem = tinyProblem(graph, tinyHost({ buses }));
  const decisions = allOn(problem, 0);
  decisions.gpu[1] = 1;
  return { problem, plan: planOf(problem, decisions) };
}

export function drawnProblem(seed: number, memoryGiB = 16): PlanningProblem {
  const random = randomFrom(seed, "drawn problem");
  const count = 4 + random.below(9);
  const sizes: number[] = [];
  const operations = Array.from({ length: count }, (_, at): TinyOperation => {
    const inputs = new Set<number>();
    for (let each = 0; at > 0 && each <= random.below(2); each += 1)
      inputs.add(Math.max(0, at - 1 - random.below(3)));
    const parameters = random.below(2) === 0 ? [sizes.push(5 + 40 * random.unit()) - 1] : [];
    const kernelMs = 0.2 + 2 * random.unit();
    return { inputs: [...inputs], parameters, kernelMs, outputMB: 5 * random.unit() };
  });
  const buses = random.below(2) === 0 ? [0, 0] : [0, 1];
  const peer: PeerWay =
    random.below(2) === 0 ? { kind: "pcie", peerGBs: 8 } : { kind: "nvlink", peerGBs: 40 };
  return tinyProblem(tinyGraph(operations, sizes), tinyHost({ buses, peer, memoryGiB }));
}
