/**
 * @file Plans in one pass: each operation goes where it would finish first, each parameter lands where it would arrive first.
 *
 * Earliest finish time over GPUs and, for each parameter, over the GPUs on which it may land (its own bus, or a neighbour's and on over the
 * link), given the clocks that earlier operations left. Buses fill evenly, because the emptier one delivers first. It is the baseline of
 * the search and its usual start. Cost: O(operations × GPUs × (inputs + parameters × GPUs)); ties go to the GPU of the first input, then to
 * the lowest index.
 */

import { allOn, IN_HOST, type Decisions } from "./decisions.ts";
import { listAt, type PlanningProblem } from "./problem.ts";

export interface ListOptions {
  /** GPUs that may compute; all when absent. */
  readonly computing?: readonly number[];
  /** GPUs on which parameters may land beside the one that reads them. */
  readonly landing?: readonly number[];
  /** Parameters that stay in host memory. */
  readonly from?: Decisions;
  /** Another GPU than that of the first input must finish this much earlier. */
  readonly reluctanceMs?: number;
  /** Bytes of each GPU that parameters may take. */
  readonly parameterRoom?: Float64Array;
}

export function listSchedule(
  problem: PlanningProblem,
  { computing, landing = [], from, reluctanceMs = 0, parameterRoom }: ListOptions = {},
): Decisions {
  const { gpuCount, busOf, busMsPerByte, peerMsPerByte, copyMs, parameterBytes } = problem;
  const candidates = computing ?? Array.from({ length: gpuCount }, (_, gpu) => gpu);
  const decisions = allOn(problem, candidates[0] ?? 0);
  if (from !== undefined) {
    decisions.landing.set(from.landing);
    decisions.order.set(from.order);
  }
  const room = (parameterRoom ?? problem.memoryBytes).slice();
  const gpuFree = new Float64Array(gpuCount);
  const busFree = new Float64Array(busMsPerByte.length);
  const finish = new Float64Array(problem.operationCount);
  const parameterAt = new Float64Array(problem.parameterCount * gpuCount).fill(-1);
  /** GPU of each group that has one, by its first operation. */
  const groupGpu = new Map<number, number>();

  for (const operation of decisions.order) {
    const own = listAt(problem.parametersOf, operation);
    const inputs = listAt(problem.inputs, operation);
    const home = decisions.gpu[inputs[0] ?? -1];
    const direct = own.length > 0 && own.every((each) => decisions.landing[each] === IN_HOST);
    const [first = operation] = listAt(problem.together, operation);
    const group = groupGpu.get(first);
    let best: Choice | undefined;
    for (const gpu of group === undefined ? candidates : [group]) {
      const lands = new Map<number, Landing>();
      const buses = busFree.slice();
      let ready = gpuFree[gpu] ?? 0;
      let heldBytes = 0;
      for (const parameter of direct ? [] : own) {
        const bytes = parameterBytes[parameter] ?? 0;
        const cell = parameter * gpuCount + gpu;
        if (problem.isResident[cell] === 1) continue;
        const there = parameterAt[cell] ?? -1;
        if (there >= 0) {
          ready = Math.max(ready, there);
          continue;
        }
        heldBytes += bytes;
        let landed: Landing | undefined;
        for (const on of [gpu, ...landing]) {
          const bus = busOf[on] ?? 0;
          const busEnd = (buses[bus] ?? 0) + bytes * (busMsPerByte[bus] ?? 0);
          const link = on === gpu ? 0 : copyMs + bytes * (peerMsPerByte[on * gpuCount + gpu] ?? 0);
          if (landed === undefined || busEnd + link < landed.arriveMs - 1e-9)
            landed = { on, bus, busEnd, arriveMs: busEnd + link };
        }
        if (landed === undefined) continue;
        buses[landed.bus] = landed.busEnd;
        lands.set(parameter, landed);
        ready = Math.max(ready, landed.arriveMs);
      }
      for (const input of inputs) {
        const at = decisions.gpu[input] ?? 0;
        const come = finish[input] ?? 0;
        const link = at * gpuCount + gpu;
        const bytes = problem.outputBytes[input] ?? 0;
        const way = at === gpu ? 0 : copyMs + bytes * (peerMsPerByte[link] ?? 0);
        // A copy starts when the thread of the GPU asks for it.
        ready = Math.max(ready, at === gpu ? come : Math.max(come, gpuFree[gpu] ?? 0) + way);
      }
      const times = direct ? problem.directMs : problem.kernelMs;
      const endMs = ready + (times[operation * gpuCount + gpu] ?? 0);
      const overMs = heldBytes > (room[gpu] ?? 0) ? Infinity : 0;
      const rank = endMs + overMs + (home === undefined || home === gpu ? 0 : reluctanceMs);
      if (best === undefined || rank < best.rank - 1e-9 || (gpu === home && rank <= best.rank))
        best = { gpu, endMs, rank, lands, heldBytes };
    }
    if (best === undefined) continue;
    const { gpu } = best;
    decisions.gpu[operation] = gpu;
    if (listAt(problem.together, operation).length > 0) groupGpu.set(first, gpu);
    room[gpu] = (room[gpu] ?? 0) - best.heldBytes;
    for (const [parameter, { on, bus, busEnd, arriveMs }] of best.lands) {
      busFree[bus] = busEnd;
      if (on !== gpu) decisions.landing[parameter] = on;
      parameterAt[parameter * gpuCount + gpu] = arriveMs;
    }
    finish[operation] = best.endMs;
    gpuFree[gpu] = best.endMs;
  }
  return decisions;
}

interface Landing {
  readonly on: number;
  readonly bus: number;
  readonly busEnd: number;
  readonly arriveMs: number;
}

interface Choice {
  readonly gpu: number;
  readonly endMs: number;
  readonly rank: number;
  readonly lands: ReadonlyMap<number, Landing>;
  readonly heldBytes: number;
}
