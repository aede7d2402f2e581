/**
 * @file The constants of the MILP as SortingHat §3.4 adjusts them for contention that its equations cannot see.
 *
 * Kernels with direct host access take twice as long for each GPU on the bus. Copies over a link of two GPUs' own take 1.5 times as
 * long; all others as many times as there are GPUs. Starting a copy costs nothing, as in the paper.
 */

import { listAt, type PlanningProblem } from "./problem.ts";

const OWN_LINK = 1.5;

export function adjustedCosts(problem: PlanningProblem): PlanningProblem {
  const { gpuCount, busOf, isPeerOverBus } = problem;
  const sharing = busOf.map((bus) => busOf.filter((other) => other === bus).length);
  const directMs = problem.directMs.map((ms, cell) => {
    const operation = Math.floor(cell / gpuCount);
    const isReading = listAt(problem.parametersOf, operation).length > 0;
    return isReading ? ms * 2 * (sharing[cell % gpuCount] ?? 1) : ms;
  });
  const peerMsPerByte = problem.peerMsPerByte.map((ms, link) =>
    isPeerOverBus[link] === 1 ? ms * gpuCount : ms * OWN_LINK,
  );
  return { ...problem, directMs, peerMsPerByte, copyMs: 0 };
}
