/**
 * @file The input of inference planning: one graph on one host, as times and sizes in flat arrays.
 *
 * The cost model. A kernel takes launch + max(FLOPs / product rate, bytes / streaming rate), times the GPU's slowdown (a roofline); measured
 * times of the same kind of device replace it. With direct host access the parameters' bytes come over the bus instead of from device
 * memory. Copies run at measured bandwidths; the source of each figure stands in `domain/model/inference-device.ts` and in the host files.
 * Operations are numbered in an order in which inputs come first.
 */

import type { InferenceHost, PeerWay } from "../../domain/model/inference-host.ts";
import type { InferenceDevice } from "../../domain/model/inference-device.ts";
import type { OperationNode, OperatorGraph } from "../../domain/model/operator-graph.ts";

export interface PlanningProblem {
  readonly graph: OperatorGraph;
  readonly host: InferenceHost;
  readonly operationCount: number;
  readonly parameterCount: number;
  readonly gpuCount: number;
  /** Index in the graph by number here. */
  readonly graphIndex: Int32Array;
  /** `[operation × gpuCount + gpu]`. */
  readonly kernelMs: Float64Array;
  /** The same with parameters read over a bus that nothing else uses. */
  readonly directMs: Float64Array;
  /** Bytes that direct host access reads over the bus. */
  readonly directBytes: Float64Array;
  readonly outputBytes: Float64Array;
  readonly parameterBytes: Float64Array;
  readonly inputs: Lists;
  readonly readers: Lists;
  readonly parametersOf: Lists;
  readonly readersOfParameter: Lists;
  /** For each operation, all operations of its group, which must run on one GPU; none where it is free. */
  readonly together: Lists;
  readonly busOf: Int32Array;
  /** By bus. */
  readonly busMsPerByte: Float64Array;
  /** `[from × gpuCount + to]`; 0 on the diagonal. */
  readonly peerMsPerByte: Float64Array;
  /** Whether copies between the two use their buses. */
  readonly isPeerOverBus: Uint8Array;
  /** Fixed cost of one copy between GPUs. */
  readonly copyMs: number;
  readonly memoryBytes: Float64Array;
  /** `[parameter × gpuCount + gpu]`: 1 where it lies before the run. */
  readonly isResident: Uint8Array;
}

/** Lists of indices, one after the other: list i is `items[start[i]] … items[start[i + 1] - 1]`. */
export interface Lists {
  readonly start: Int32Array;
  readonly items: Int32Array;
}

export interface ProblemOptions {
  /** Factors on the cost model, for sweeps. */
  readonly scale?: Partial<CostScale>;
  /** Parameters that are in GPU memory already. */
  readonly resident?: readonly { readonly parameter: number; readonly gpu: number }[];
}

export interface CostScale {
  readonly kernel: number;
  readonly bus: number;
  readonly peer: number;
}

const GIB = 2 ** 30;

/** `order` lists the graph's operations so that inputs come first, as `checkOperatorGraph` returns it. */
export function planningProblem(
  graph: OperatorGraph,
  host: InferenceHost,
  { order, scale = {}, resident = [] }: ProblemOptions & { readonly order: readonly number[] },
): PlanningProblem {
  const { kernel = 1, bus = 1, peer = 1 } = scale;
  const operationCount = graph.operations.length;
  const parameterCount = graph.parameters.length;
  const gpuCount = host.gpus.length;
  const number = new Int32Array(operationCount);
  for (const [at, index] of order.entries()) number[index] = at;
  const operations = order.flatMap((index) => graph.operations[index] ?? []);
  const busMsPerByte = Float64Array.from(host.buses, ({ busGBs }) => bus / (busGBs * 1e6));
  const busOf = Int32Array.from(host.gpus, (gpu) => gpu.bus);

  const kernelMs = new Float64Array(operationCount * gpuCount);
  const directMs = new Float64Array(operationCount * gpuCount);
  const directBytes = new Float64Array(operationCount);
  for (const [at, operation] of operations.entries()) {
    const ownBytes = sumOf(operation.parameters, (index) => graph.parameters[index]?.bytes ?? 0);
    const touched = Math.min(operation.touchedParameterBytes ?? ownBytes, ownBytes);
    directBytes[at] = touched;
    for (const [gpu, { device, slowdown, bus: gpuBus }] of host.gpus.entries()) {
      const cell = at * gpuCount + gpu;
      const measured = operation.measured?.find((each) => each.device === device.kind);
      const ms = measured?.kernelMs ?? rooflineMs(operation, device, operation.movedBytes);
      kernelMs[cell] = ms * slowdown * kernel;
      const inner =
        measured?.kernelMs ?? rooflineMs(operation, device, operation.movedBytes - touched);
      const overBus = touched * (busMsPerByte[gpuBus] ?? 0);
      directMs[cell] = measured?.directMs ?? Math.max(inner * slowdown * kernel, overBus);
    }
  }

  const inputLists = operations.map(({ inputs }) =>
    [...new Set(inputs.map((index) => number[index] ?? 0))].sort((a, b) => a - b),
  );
  const parameterLists = operations.map(({ parameters }) => [...new Set(parameters)]);
  const peerMsPerByte = new Float64Array(gpuCount * gpuCount);
  const isPeerOverBus = new Uint8Array(gpuCount * gpuCount);
  for (let from = 0; from < gpuCount; from += 1) {
    for (let to = 0; to < gpuCount; to += 1) {
      const way = host.peers[from]?.[to] ?? { kind: "staged" };
      const cell = from * gpuCount + to;
      const busMs = (gpu: number): number => busMsPerByte[busOf[gpu] ?? 0] ?? 0;
      peerMsPerByte[cell] = peerMs(way, peer) ?? busMs(from) + busMs(to);
      isPeerOverBus[cell] = way.kind === "pcie" || way.kind === "staged" ? 1 : 0;
    }
  }
  const isResident = new Uint8Array(parameterCount * gpuCount);
  for (const { parameter, gpu } of resident) isResident[parameter * gpuCount + gpu] = 1;

  return {
    graph,
    host,
    operationCount,
    parameterCount,
    gpuCount,
    graphIndex: Int32Array.from(order),
    kernelMs,
    directMs,
    directBytes,
    outputBytes: Float64Array.from(operations, ({ outputBytes }) => outputBytes),
    parameterBytes: Float64Array.from(graph.parameters, ({ bytes }) => bytes),
    inputs: listsOf(inputLists),
    readers: listsOf(inverse(inputLists, operationCount)),
    parametersOf: listsOf(parameterLists),
    readersOfParameter: listsOf(inverse(parameterLists, parameterCount)),
    together: listsOf(groupsOf(operations)),
    busOf,
    busMsPerByte,
    peerMsPerByte,
    isPeerOverBus,
    copyMs: host.copyUs / 1e3,
    memoryBytes: Float64Array.from(host.gpus, ({ device }) => device.memoryGiB * GIB),
    isResident,
  };
}

/** The time of one kernel: its roofline bound plus the launch. */
function rooflineMs(
  { flops, isHalf }: Pick<OperationNode, "flops" | "isHalf">,
  device: InferenceDevice,
  movedBytes: number,
): number {
  const {
    peakTflops,
    halfTflops = peakTflops,
    gemmShare,
    memoryGBs,
    memoryShare,
    launchUs,
  } = device;
  const computeMs = flops / ((isHalf === true ? halfTflops : peakTflops) * gemmShare * 1e9);
  const memoryMs = movedBytes / (memoryGBs * memoryShare * 1e6);
  return launchUs / 1e3 + Math.max(computeMs, memoryMs);
}

/** Undefined for copies that are staged in host memory: they take both buses in turn. */
function peerMs(way: PeerWay, scale: number): number | undefined {
  switch (way.kind) {
    case "self":
      return 0;
    case "nvlink":
    case "nvswitch":
    case "pcie":
      return scale / (way.peerGBs * 1e6);
    case "staged":
      return undefined;
  }
}

/** Groups of one operation bind nothing. */
function groupsOf(operations: readonly OperationNode[]): (readonly number[])[] {
  const members = new Map<string, number[]>();
  for (const [at, { group }] of operations.entries())
    if (group !== undefined) members.set(group, [...(members.get(group) ?? []), at]);
  return operations.map(({ group }) => {
    const own = group === undefined ? undefined : members.get(group);
    return own !== undefined && own.length > 1 ? own : [];
  });
}

function inverse(lists: readonly (readonly number[])[], count: number): number[][] {
  const back: number[][] = Array.from({ length: count }, () => []);
  for (const [from, list] of lists.entries()) for (const to of list) back[to]?.push(from);
  return back;
}

function listsOf(lists: readonly (readonly number[])[]): Lists {
  const start = new Int32Array(lists.length + 1);
  for (const [index, list] of lists.entries()) start[index + 1] = (start[index] ?? 0) + list.length;
  return { start, items: Int32Array.from(lists.flat()) };
}

/** The items of one list. */
export function listAt({ start, items }: Lists, index: number): Int32Array {
  return items.subarray(start[index], start[index + 1]);
}

const sumOf = (list: readonly number[], of: (item: number) => number): number =>
  list.reduce((total, item) => total + of(item), 0);
