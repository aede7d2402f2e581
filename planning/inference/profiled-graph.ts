/**
 * @file Converts a profiled graph of layers or operators (PipeDream, MSR) into an operator graph for inference.
 *
 * Only forward nodes count. A node's parameters become one parameter. Its time is the measured one on the profiled device; for other devices
 * it counts as the FLOPs that the profiled device would have done in that time. Cost: one pass.
 */

import type { InferenceDevice } from "../../domain/model/inference-device.ts";
import type { ModelGraph } from "../../domain/model/model-graph.ts";
import type {
  OperationNode,
  OperatorGraph,
  ParameterNode,
} from "../../domain/model/operator-graph.ts";

export function profiledGraph(graph: ModelGraph, profiledOn: InferenceDevice): OperatorGraph {
  const kept = graph.nodes.flatMap((node, index) => (node.isBackward ? [] : [index]));
  const numberOf = new Map(kept.map((index, at) => [index, at]));
  const inputsOf: number[][] = kept.map(() => []);
  for (const { from, to } of graph.edges) {
    const [input, reader] = [numberOf.get(from), numberOf.get(to)];
    if (input !== undefined && reader !== undefined) inputsOf[reader]?.push(input);
  }
  const parameters: ParameterNode[] = [];
  const operations = kept.flatMap((index, at): OperationNode[] => {
    const node = graph.nodes[index];
    if (node === undefined) return [];
    const inputs = inputsOf[at] ?? [];
    const own =
      node.parameterBytes > 0
        ? [parameters.push({ id: `${node.id}.parameters`, bytes: node.parameterBytes }) - 1]
        : [];
    const inputBytes = inputs.map((each) => graph.nodes[kept[each] ?? 0]?.outputBytes ?? 0);
    const movedBytes = inputBytes.reduce((sum, each) => sum + each, node.parameterBytes);
    const { peakTflops, gemmShare, kind } = profiledOn;
    return [
      {
        id: node.id,
        kind: node.name,
        inputs,
        parameters: own,
        outputBytes: node.outputBytes,
        flops: node.flops ?? node.forwardMs * peakTflops * gemmShare * 1e9,
        movedBytes: movedBytes + node.outputBytes,
        ...(node.group !== undefined && { group: node.group }),
        measured: [{ device: kind, kernelMs: node.forwardMs }],
      },
    ];
  });
  return { name: graph.name, parameters, operations };
}
