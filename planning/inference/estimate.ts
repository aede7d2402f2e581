/**
 * @file The planner's own estimate of a plan's latency, fast enough for a hundred thousand calls.
 *
 * One pass over the operations in their global order: bus, link and GPU clocks advance as each operation claims its copies and its kernel.
 * The pass models the contention that it can know: copies of one bus and of one link queue; direct reads and copies between GPUs over PCIe
 * share the busy bus on which they arrive (bus-clocks.ts), large ones in a second pass. The executor simulates the same plan event by event
 * and shares no code with this file. Cost: O(operations + edges + parameters).
 */

import { busClocks } from "./bus-clocks.ts";
import { IN_HOST, type Decisions } from "./decisions.ts";
import type { PlanningProblem } from "./problem.ts";

export interface Estimator {
  /** Milliseconds to the last output; a plan that needs more memory than there is takes `OVERFULL_MS` longer for each byte share. */
  readonly latencyMs: (decisions: Decisions) => number;
  /** Finish of each operation in the plan asked last. */
  readonly finishMs: Float64Array;
  /** Start of each kernel in the plan asked last. */
  readonly startMs: Float64Array;
}

export interface EstimateOptions {
  /** Bytes of each GPU left for parameters by activations. */
  readonly parameterRoom?: Float64Array;
  /**
   * `milp`: contention is in the constants (`adjusted-costs.ts`), and each fetch of a subgraph from other GPUs adds to its time
   * (equations 21 and 22). For comparisons with proven optima.
   */
  readonly model?: "contention" | "milp";
}

/** Worse than any plan that fits, and worse the more it overflows, so that a search finds its way back. */
const OVERFULL_MS = 1e7;

export function estimator(
  problem: PlanningProblem,
  { parameterRoom = problem.memoryBytes, model = "contention" }: EstimateOptions = {},
): Estimator {
  const { operationCount, parameterCount, gpuCount, kernelMs, directMs, directBytes } = problem;
  const { outputBytes, parameterBytes, busOf, busMsPerByte, peerMsPerByte, isPeerOverBus } =
    problem;
  const { copyMs, isResident } = problem;
  const { start: inputStart, items: inputItems } = problem.inputs;
  const { start: readerStart, items: readerItems } = problem.readersOfParameter;
  const { start: ownStart, items: ownItems } = problem.parametersOf;
  const finishMs = new Float64Array(operationCount);
  const startMs = new Float64Array(operationCount);
  const gpuFree = new Float64Array(gpuCount);
  const clocks = busClocks(busMsPerByte.length);
  const ways = waysOverBuses(problem);
  const directFree = new Float64Array(busMsPerByte.length);
  /** End of the copies between GPUs that leave or reach a bus, on its wire. */
  const upFree = new Float64Array(busMsPerByte.length);
  const downFree = new Float64Array(busMsPerByte.length);
  /** Total copying time of each bus. */
  const busWork = new Float64Array(busMsPerByte.length);
  const using = { aloneMs: 0, sharedMs: 0 };
  const linkFree = new Float64Array(gpuCount * gpuCount);
  /** Arrival of an operation's result, or of a parameter, on another GPU; entries of earlier rounds are void. */
  const resultAt = new Float64Array(operationCount * gpuCount);
  const resultRound = new Int32Array(operationCount * gpuCount);
  const parameterAt = new Float64Array(parameterCount * gpuCount);
  const parameterRound = new Int32Array(parameterCount * gpuCount);
  const landedOn = new Int32Array(parameterCount);
  const landedRound = new Int32Array(parameterCount);
  const held = new Float64Array(gpuCount);
  const residentBytes = new Float64Array(gpuCount);
  for (let cell = 0; cell < isResident.length; cell += 1) {
    if (isResident[cell] === 0) continue;
    const gpu = cell % gpuCount;
    const bytes = parameterBytes[(cell - gpu) / gpuCount] ?? 0;
    residentBytes[gpu] = (residentBytes[gpu] ?? 0) + bytes;
  }
  let round = 0;
  const isMilp = model === "milp";
  /** Milliseconds of fetching that the operation at hand adds to its kernel (`milp` only). */
  let fetchMs = 0;

  /** Reserves the way between two GPUs from `fromMs` on; returns the arrival of the bytes. */
  const peerCopy = (
    from: number,
    to: number,
    { bytes, fromMs }: { readonly bytes: number; readonly fromMs: number },
  ): number => {
    const link = from * gpuCount + to;
    if (isMilp) {
      fetchMs += bytes * (peerMsPerByte[link] ?? 0);
      return fromMs;
    }
    const begin = Math.max(fromMs, linkFree[link] ?? 0);
    let took = bytes * (peerMsPerByte[link] ?? 0);
    if (isPeerOverBus[link] === 1) {
      const first = bytes * (ways.firstMsPerByte[link] ?? 0);
      using.aloneMs = took - first;
      using.sharedMs = bytes * (ways.sharedMsPerByte[link] ?? 0);
      took = first + clocks.use(busOf[to] ?? 0, begin + copyMs + first, using);
    }
    let end = begin + copyMs + took;
    if (isPeerOverBus[link] === 1) {
      const [up, down] = [busOf[from] ?? 0, busOf[to] ?? 0];
      const left = Math.max(upFree[up] ?? 0, begin + copyMs) + bytes * (busMsPerByte[up] ?? 0);
      const reach = (ways.firstMsPerByte[link] ?? 0) > 0 ? left : begin + copyMs;
      const come = Math.max(downFree[down] ?? 0, reach) + bytes * (busMsPerByte[down] ?? 0);
      upFree[up] = left;
      downFree[down] = come;
      end = Math.max(end, left, come);
    }
    linkFree[link] = end;
    return end;
  };

  /** When a parameter is on a GPU; its copy out of host memory is queued when this is its first reader. */
  const parameterReady = (parameter: number, gpu: number, wanted: number): number => {
    const cell = parameter * gpuCount + gpu;
    if (parameterRound[cell] === round) return parameterAt[cell] ?? 0;
    const bytes = parameterBytes[parameter] ?? 0;
    if (isResident[cell] === 1 || bytes === 0) return 0;
    if (landedRound[parameter] !== round) {
      const lands = wanted >= 0 ? wanted : gpu;
      const bus = busOf[lands] ?? 0;
      const end = clocks.copy(bus, bytes * (busMsPerByte[bus] ?? 0));
      held[lands] = (held[lands] ?? 0) + bytes;
      landedRound[parameter] = round;
      landedOn[parameter] = lands;
      parameterRound[parameter * gpuCount + lands] = round;
      parameterAt[parameter * gpuCount + lands] = end;
      if (lands === gpu) return end;
    }
    const from = landedOn[parameter] ?? 0;
    const end = peerCopy(from, gpu, {
      bytes,
      fromMs: parameterAt[parameter * gpuCount + from] ?? 0,
    });
    held[gpu] = (held[gpu] ?? 0) + bytes;
    parameterRound[cell] = round;
    parameterAt[cell] = end;
    return end;
  };

  const expectBuses = (gpuOf: Int32Array, landing: Int32Array): void => {
    busWork.fill(0);
    for (let parameter = 0; parameter < parameterCount; parameter += 1) {
      const wanted = landing[parameter] ?? 0;
      const reader = readerItems[readerStart[parameter] ?? 0];
      if (reader === undefined || wanted === IN_HOST) continue;
      const gpu = wanted >= 0 ? wanted : (gpuOf[reader] ?? 0);
      if (isResident[parameter * gpuCount + gpu] === 1) continue;
      const bus = busOf[gpu] ?? 0;
      const bytes = parameterBytes[parameter] ?? 0;
      busWork[bus] = (busWork[bus] ?? 0) + bytes * (busMsPerByte[bus] ?? 0);
    }
  };

  const latencyMs = (decisions: Decisions): number => {
    expectBuses(decisions.gpu, decisions.landing);
    clocks.begin(busWork);
    const ms = passMs(decisions);
    if (!clocks.isInfeasible()) return ms;
    clocks.beginAgain(busWork);
    return passMs(decisions);
  };

  const passMs = ({ order, gpu: gpuOf, landing }: Decisions): number => {
    round += 1;
    gpuFree.fill(0);
    linkFree.fill(0);
    directFree.fill(0);
    upFree.fill(0);
    downFree.fill(0);
    held.set(residentBytes);
    let last = 0;
    for (let at = 0; at < operationCount; at += 1) {
      const operation = order[at] ?? 0;
      const gpu = gpuOf[operation] ?? 0;
      const cell = operation * gpuCount + gpu;
      let ready = gpuFree[gpu] ?? 0;
      fetchMs = 0;
      const ownEnd = ownStart[operation + 1] ?? 0;
      let isDirect = ownEnd > (ownStart[operation] ?? 0);
      for (let own = ownStart[operation] ?? 0; own < ownEnd; own += 1) {
        const parameter = ownItems[own] ?? 0;
        const wanted = landing[parameter] ?? 0;
        if (wanted === IN_HOST) continue;
        isDirect = false;
        const arrived = parameterReady(parameter, gpu, wanted);
        if (arrived > ready) ready = arrived;
      }
      // The thread of a GPU asks for one input after the other, and runs when the last one has come.
      let issued = ready;
      const inputEnd = inputStart[operation + 1] ?? 0;
      for (let input = inputStart[operation] ?? 0; input < inputEnd; input += 1) {
        const from = inputItems[input] ?? 0;
        const end = finishMs[from] ?? 0;
        if (end > issued) issued = end;
        const other = gpuOf[from] ?? 0;
        let come = issued;
        if (other !== gpu) {
          const there = from * gpuCount + gpu;
          if (resultRound[there] !== round) {
            resultRound[there] = round;
            resultAt[there] = peerCopy(other, gpu, {
              bytes: outputBytes[from] ?? 0,
              fromMs: issued,
            });
          }
          come = Math.max(issued, resultAt[there] ?? 0);
        }
        if (come > ready) ready = come;
      }
      if (issued > ready) ready = issued;
      let took = (kernelMs[cell] ?? 0) + fetchMs;
      if (isDirect) took = (directMs[cell] ?? 0) + fetchMs;
      if (isDirect && !isMilp) {
        const bus = busOf[gpu] ?? 0;
        const overBus = (directBytes[operation] ?? 0) * (busMsPerByte[bus] ?? 0);
        // Direct reads of two GPUs over one bus take turns: together they are no faster.
        const begin = Math.max(ready, directFree[bus] ?? 0);
        using.aloneMs = overBus;
        using.sharedMs = 2 * overBus;
        const read = begin + clocks.use(bus, begin, using);
        directFree[bus] = read;
        took = Math.max(took, read - ready);
      }
      startMs[operation] = ready;
      const end = ready + took;
      finishMs[operation] = end;
      gpuFree[gpu] = end;
      if (end > last) last = end;
    }
    for (let gpu = 0; gpu < gpuCount; gpu += 1) {
      const room = parameterRoom[gpu] ?? 0;
      const over = (held[gpu] ?? 0) - room;
      if (over > 0) last += OVERFULL_MS * (1 + over / Math.max(1, room));
    }
    return last;
  };
  return { latencyMs, finishMs, startMs };
}

/** Copies between GPUs over PCIe, `[from × gpuCount + to]`: their time while the bus of arrival copies, and before they reach it. */
function waysOverBuses({ gpuCount, host, busOf, busMsPerByte, peerMsPerByte }: PlanningProblem) {
  const firstMsPerByte = new Float64Array(peerMsPerByte.length);
  const sharedMsPerByte = peerMsPerByte.map((alone, link) => {
    const [from, to] = [Math.floor(link / gpuCount), link % gpuCount];
    const half = 2 * (busMsPerByte[busOf[to] ?? 0] ?? 0);
    if (host.peers[from]?.[to]?.kind !== "staged") return Math.max(alone, half);
    // Staged copies go to host memory first.
    firstMsPerByte[link] = busMsPerByte[busOf[from] ?? 0] ?? 0;
    return half;
  });
  return { firstMsPerByte, sharedMsPerByte };
}
