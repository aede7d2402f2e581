/**
 * @file Small random models on two GPUs, whose MILPs HiGHS solves to proof.
 *
 * 8 to 20 nodes, small ones more often, operations and parameters together: a random layered graph with branches, about half of the operations with a
 * parameter, one of them sometimes read twice. Kernels and copies are of one order of magnitude, so that neither decides alone. The
 * two GPUs share a bus or not, are equal or not, and are joined by NVLink or over PCIe.
 */

import type { InferenceHost, PeerWay } from "../../domain/model/inference-host.ts";
import type { OperationNode, OperatorGraph } from "../../domain/model/operator-graph.ts";
import { randomFrom } from "../../lib/random.ts";
import { planningProblem, type PlanningProblem } from "../../planning/inference/problem.ts";

export function randomCase(seed: number): PlanningProblem {
  const random = randomFrom(seed, "inference case");
  const nodes = 8 + Math.floor(13 * random.unit() ** 2);
  const operationCount = Math.max(4, Math.round(nodes * (0.55 + 0.15 * random.unit())));
  const parameterCount = nodes - operationCount;
  const parameters = Array.from({ length: parameterCount }, (_, index) => ({
    id: `w${index}`,
    bytes: Math.round((4 + 60 * random.unit()) * 1e6),
  }));
  const reads: number[][] = Array.from({ length: operationCount }, () => []);
  for (let index = 0; index < parameterCount; index += 1)
    reads[random.below(operationCount)]?.push(index);
  const operations = reads.map((own, index): OperationNode => {
    const inputs = new Set<number>();
    const fanIn = index === 0 ? 0 : 1 + random.below(2);
    for (let each = 0; each < fanIn; each += 1)
      inputs.add(Math.max(0, index - 1 - random.below(Math.min(index, 4))));
    const kernelMs = 0.2 + 3 * random.unit();
    const ownBytes = own.reduce((sum, each) => sum + (parameters[each]?.bytes ?? 0), 0);
    return {
      id: `o${index}`,
      kind: "Random",
      inputs: [...inputs],
      parameters: own,
      outputBytes: Math.round((0.5 + 8 * random.unit()) * 1e6),
      flops: 0,
      movedBytes: 0,
      touchedParameterBytes: Math.round(ownBytes * (random.below(4) === 0 ? 0.02 : 1)),
      measured: [{ device: "GPU", kernelMs }],
    };
  });
  const graph: OperatorGraph = { name: `case ${seed}`, parameters, operations };
  const order = operations.map((_, index) => index);
  return planningProblem(graph, randomHost(seed), { order });
}

function randomHost(seed: number): InferenceHost {
  const random = randomFrom(seed, "inference host");
  const device = {
    kind: "GPU",
    peakTflops: 10,
    gemmShare: 1,
    memoryGBs: 900,
    memoryShare: 1,
    launchUs: 5,
    memoryGiB: 32,
  };
  const isShared = random.below(2) === 0;
  const slowdown = random.below(3) === 0 ? 2 + 3 * random.unit() : 1;
  const way: PeerWay =
    random.below(3) === 0
      ? { kind: "pcie", peerGBs: 10 }
      : { kind: "nvlink", peerGBs: 20 + 30 * random.unit() };
  return {
    name: `host ${seed}`,
    buses: isShared
      ? [{ name: "a", busGBs: 12 }]
      : [
          { name: "a", busGBs: 12 },
          { name: "b", busGBs: 12 },
        ],
    gpus: [
      { name: "GPU0", device, slowdown: 1, bus: 0 },
      { name: "GPU1", device, slowdown, bus: isShared ? 0 : 1 },
    ],
    peers: [
      [{ kind: "self" }, way],
      [way, { kind: "self" }],
    ],
    copyUs: 0,
  };
}
