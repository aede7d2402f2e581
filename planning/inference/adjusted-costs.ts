/**
 * @file Adjusts the constants of the MILP for contention that its equations do not model (SortingHat §3.4).
 *
 * Kernels with direct host access take 2 × (GPUs on the bus) as long. Copies over a dedicated link of two GPUs take 1.5 times as long,
 * all other copies as many times as there are GPUs. Starting a copy costs nothing, as in the paper. Cost: O(operations × GPUs).
 * Not reached by the product yet: used by `bench inference` and tests.
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
