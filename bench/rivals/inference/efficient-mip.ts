/**
 * @file EfficientMIP as SortingHat §4.2 compares with it: model parallelism alone, one submodel after the other.
 *
 * Every submodel is scheduled by itself over GPUs taken as equal: parameters cost nothing, results go through host memory at one
 * speed, taken twice as fast. Ours is a descent over the GPUs of the operations from list schedules, with restarts, instead of 30 s
 * of a solver, and without its limit of q subgraphs: so no worse than what the paper ran. Submodels that repeat are solved once.
 */

import { randomFrom } from "../../../lib/random.ts";
import { allOn, type Decisions } from "../../../planning/inference/decisions.ts";
import { listAt, type PlanningProblem } from "../../../planning/inference/problem.ts";
import { submodels, type Submodel } from "../../../planning/inference/submodels.ts";

const RESTARTS = 12;
/** The limit of operations for one submodel, because a large one without dominators would never finish. */
const MOST_STEPS = 1e8;

export function efficientMipDecisions(problem: PlanningProblem): Decisions {
  const gpus = spreadOrder(problem);
  const decisions = allOn(problem, gpus[0] ?? 0);
  const solved = new Map<string, readonly number[]>();
  for (const submodel of submodels(problem)) {
    const signature = signatureOf(problem, submodel);
    const places = solved.get(signature) ?? schedule(problem, submodel, gpus);
    solved.set(signature, places);
    for (const [at, operation] of submodel.operations.entries())
      decisions.gpu[operation] = gpus[places[at] ?? 0] ?? 0;
  }
  return decisions;
}

/**
 * The GPUs in the order in which they are taken, to the rival's advantage: it does not know that GPUs share buses, so the order
 * does. First one with the fastest link, then those behind unused buses, nearest first.
 */
function spreadOrder({ gpuCount, busOf, peerMsPerByte }: PlanningProblem): readonly number[] {
  const all = Array.from({ length: gpuCount }, (_, gpu) => gpu);
  const reach = (from: number, to: number): number => peerMsPerByte[from * gpuCount + to] ?? 0;
  const nearest = (from: number): number =>
    Math.min(...all.filter((to) => to !== from).map((to) => reach(from, to)));
  const first = [...all].sort((a, b) => nearest(a) - nearest(b) || a - b)[0] ?? 0;
  const taken = [first];
  while (taken.length < gpuCount) {
    const buses = taken.map((gpu) => busOf[gpu]);
    const shares = (gpu: number): number => buses.filter((bus) => bus === busOf[gpu]).length;
    const [next = 0] = all
      .filter((gpu) => !taken.includes(gpu))
      .sort((a, b) => shares(a) - shares(b) || reach(first, a) - reach(first, b) || a - b);
    taken.push(next);
  }
  return taken;
}

function signatureOf(problem: PlanningProblem, { operations }: Submodel): string {
  const first = operations[0] ?? 0;
  return operations
    .map((each) => {
      const inputs = [...listAt(problem.inputs, each)].map((input) => input - first).join(" ");
      return `${problem.kernelMs[each * problem.gpuCount]} ${problem.outputBytes[each]} ${inputs}`;
    })
    .join("\n");
}

/** Place of each operation of the submodel. */
function schedule(
  problem: PlanningProblem,
  submodel: Submodel,
  gpus: readonly number[],
): readonly number[] {
  const random = randomFrom(1, "efficient-mip");
  const count = submodel.operations.length;
  const model = kernelModel(problem, submodel, gpus.length);
  let best: readonly number[] = new Array<number>(count).fill(0);
  let bestMs = model(best);
  let left = MOST_STEPS / Math.max(1, count);
  for (let restart = 0; restart < RESTARTS && count > 1 && left > 0; restart += 1) {
    const places = Array.from({ length: count }, () =>
      restart === 0 ? 0 : random.below(gpus.length),
    );
    let ms = model(places);
    for (let isBetter = true; isBetter && left > 0;) {
      isBetter = false;
      for (let at = 0; at < count && left > 0; at += 1) {
        left -= gpus.length;
        const before = places[at] ?? 0;
        let chosen = before;
        for (let place = 0; place < gpus.length; place += 1) {
          places[at] = place;
          const tried = model(places);
          if (tried >= ms - 1e-9) continue;
          ms = tried;
          chosen = place;
          isBetter = true;
        }
        places[at] = chosen;
      }
    }
    if (ms < bestMs - 1e-9) [best, bestMs] = [[...places], ms];
  }
  return lowestNames(best);
}

/** The same split with places renamed in the order of their first use, so that the chain stays on the first GPU. */
function lowestNames(places: readonly number[]): readonly number[] {
  const names = new Map<number, number>();
  // The last operation carries the chain into the next submodel.
  for (const place of [places.at(-1) ?? 0, ...places])
    if (!names.has(place)) names.set(place, names.size);
  return places.map((place) => names.get(place) ?? 0);
}

function kernelModel(
  { kernelMs, gpuCount, inputs, outputBytes, busMsPerByte }: PlanningProblem,
  { operations }: Submodel,
  places: number,
): (chosen: readonly number[]) => number {
  // Down to host memory and up again, both at bus speed, taken twice as fast.
  const msPerByte = Math.max(...busMsPerByte);
  const localOf = new Map(operations.map((operation, at) => [operation, at]));
  const read = operations.map((operation) =>
    [...listAt(inputs, operation)].flatMap((input) => localOf.get(input) ?? []),
  );
  const kernels = operations.map((operation) =>
    Math.min(...kernelMs.subarray(operation * gpuCount, (operation + 1) * gpuCount)),
  );
  const bytes = operations.map((operation) => outputBytes[operation] ?? 0);
  const finish = new Float64Array(operations.length);
  const free = new Float64Array(places);
  return (chosen) => {
    free.fill(0);
    let last = 0;
    for (const [at, inputsHere] of read.entries()) {
      const place = chosen[at] ?? 0;
      let ready = free[place] ?? 0;
      for (const input of inputsHere) {
        const away = chosen[input] === place ? 0 : (bytes[input] ?? 0) * msPerByte;
        ready = Math.max(ready, (finish[input] ?? 0) + away);
      }
      const end = ready + (kernels[at] ?? 0);
      finish[at] = end;
      free[place] = end;
      last = Math.max(last, end);
    }
    return last;
  };
}
