/**
 * @file Plans one model over the GPUs of one host, for models of any size: the product's path.
 *
 * Starts from list schedules, from one GPU and from DeepPlan's plan; anneals GPU, landing and order of everything over the planner's
 * estimate; and lets the executor judge: once without noise, the best three with noise. So a plan is never worse than its starts, which
 * include the rivals', and MILP answers when they are given. The budget counts estimates, not time: the same input gives the same plan.
 * Cost: one estimate a step. Ties go to the earlier start.
 */

import type { InferencePlan } from "../../domain/model/inference-plan.ts";
import { randomFrom, type Random } from "../../lib/random.ts";
import { allOn, copyDecisions, keptTogether, planOf, type Decisions } from "./decisions.ts";
import { estimator } from "./estimate.ts";
import { execute } from "./executor.ts";
import { listSchedule } from "./list-schedule.ts";
import { mover } from "./moves.ts";
import { listAt, type PlanningProblem } from "./problem.ts";
import { deepPlanDecisions, fastestGpu, withDirect } from "./rivals.ts";

export interface SearchOptions {
  readonly seed?: number;
  /** Estimates in all; more for small models, whose estimates are cheap. */
  readonly estimates?: number;
  /** Further starts: a solver's answer, an earlier plan. */
  readonly starts?: readonly Decisions[];
  /** The arithmetic of the estimate; under `milp` no executor judges. */
  readonly model?: "contention" | "milp";
}

export type PlanFound =
  | {
      readonly kind: "planned";
      readonly decisions: Decisions;
      readonly plan: InferencePlan;
      /** The planner's own estimate. */
      readonly expectedMs: number;
      readonly stats: SearchStats;
    }
  | {
      readonly kind: "too large";
      readonly needBytes: number;
      readonly haveBytes: number;
      readonly message: string;
    };

export interface SearchStats {
  readonly estimates: number;
  readonly accepted: number;
  readonly startMs: number;
  /** Share of each GPU's memory that the plan needs at its fullest moment. */
  readonly memoryShare: number;
}

const DEFAULTS = Object.freeze({
  seed: 1,
  /** Estimates × operations: about half a second of one core. */
  work: 8_000_000,
  most: 40_000,
  /** First temperature as a share of the latency: this divided by the number of operations, which is the weight of one, at most `hottest`. */
  hotTimesOperations: 3,
  hottest: 0.08,
  /** Last temperature, likewise a share of the latency. */
  cold: 2e-6,
  /** Starts that are annealed; the rest only compete at the end. */
  annealed: 3,
  /** Executions with noise by which the last plans are judged. */
  draws: 4,
  /** Number of plans judged this way: the best ones of an execution without noise. */
  priced: 3,
  /** A plan that spreads kernels must beat one GPU's and DeepPlan's by this share. */
  plainer: 2e-3,
});
/** Activations are first reckoned at this multiple of their peak on one GPU, then at twice that, and so on. */
const RESERVES = [1.25, 2.5, 5, 10];

export function searchPlan(problem: PlanningProblem, options: SearchOptions = {}): PlanFound {
  const beyond = beyondHostMemory(problem);
  if (beyond !== undefined) return beyond;
  const activations = activationPeakBytes(problem);
  let tried: PlanFound | undefined;
  for (const reserve of RESERVES) {
    const room = problem.memoryBytes.map((bytes) => Math.max(0, bytes - reserve * activations));
    const found = searchWithin(problem, room, options);
    if (found === undefined) break;
    tried = found;
    if (found.stats.memoryShare <= 1) return found;
  }
  const parameters = problem.parameterBytes.reduce((sum, each) => sum + each, 0);
  const haveBytes = problem.memoryBytes.reduce((sum, each) => sum + each, 0);
  const needBytes = parameters + activations * (tried === undefined ? 1 : problem.gpuCount);
  return {
    kind: "too large",
    needBytes,
    haveBytes,
    message: `${problem.graph.name} needs about ${gib(needBytes)} GiB for parameters and results; the ${problem.gpuCount} GPUs of ${problem.host.name} have ${gib(haveBytes)} GiB in all`,
  };
}

/** Parameters begin in host memory, but for those that lie on GPUs already. */
function beyondHostMemory(problem: PlanningProblem): PlanFound | undefined {
  const { gpuCount, isResident, parameterBytes, host, graph } = problem;
  if (host.hostMemoryGiB === undefined) return undefined;
  let needBytes = 0;
  for (const [parameter, bytes] of parameterBytes.entries()) {
    const onGpus = isResident.subarray(parameter * gpuCount, (parameter + 1) * gpuCount);
    if (!onGpus.includes(1)) needBytes += bytes;
  }
  const haveBytes = host.hostMemoryGiB * 2 ** 30;
  if (needBytes <= haveBytes) return undefined;
  const message = `${graph.name} has ${gib(needBytes)} GiB of parameters; the memory of ${host.name} from which they are copied has ${gib(haveBytes)} GiB`;
  return { kind: "too large", needBytes, haveBytes, message };
}

const gib = (bytes: number): string => (bytes / 2 ** 30).toFixed(2);

type Planned = Extract<PlanFound, { kind: "planned" }>;

/** Undefined when no start fits into the room. */
function searchWithin(
  problem: PlanningProblem,
  parameterRoom: Float64Array,
  {
    seed = DEFAULTS.seed,
    estimates = usualEstimates(problem),
    starts = [],
    model = "contention",
  }: SearchOptions,
): Planned | undefined {
  const estimate = estimator(problem, { parameterRoom, model });
  const ranked = [
    ...starts.map((start) => keptTogether(problem, start)),
    ...usualStarts(problem, parameterRoom),
  ]
    .map((decisions, at) => ({ decisions, at, ms: estimate.latencyMs(decisions) }))
    .sort((a, b) => a.ms - b.ms || a.at - b.at);
  const first = ranked[0];
  if (first === undefined) return undefined;
  const annealed = ranked.slice(0, DEFAULTS.annealed);
  let accepted = 0;
  const results = annealed.map(({ decisions }, at) => {
    const random = randomFrom(seed, `anneal ${at}`);
    const share = Math.max(1, Math.floor(estimates / annealed.length));
    const result = anneal(problem, { decisions, estimates: share, random, estimate });
    accepted += result.accepted;
    return result.best;
  });
  const plain = [allOn(problem, fastestGpu(problem)), deepPlanDecisions(problem)].flatMap(
    (decisions) => (decisions === undefined ? [] : [{ decisions, weight: 1 - DEFAULTS.plainer }]),
  );
  const isByEstimate = model === "milp";
  const executed = [
    ...[...results, ...ranked.slice(0, 6).map(({ decisions }) => decisions)].map((decisions) => ({
      decisions,
      weight: 1,
    })),
    ...plain,
  ]
    .map(({ decisions, weight }) => {
      const plan = planOf(problem, decisions);
      const { latencyMs, peakBytes } = execute(problem, plan);
      const memoryShare = Math.max(
        ...peakBytes.map((bytes, gpu) => bytes / (problem.memoryBytes[gpu] ?? 1)),
      );
      const ms = isByEstimate ? estimate.latencyMs(decisions) : latencyMs * weight;
      return { decisions, weight, plan, memoryShare, ms };
    })
    .sort(byFitThenMs);
  const priced = isByEstimate
    ? executed
    : executed
        .slice(0, DEFAULTS.priced)
        .map((each) => ({ ...each, ms: noisyMs(problem, each.plan, seed) * each.weight }))
        .sort(byFitThenMs);
  const best = priced[0];
  if (best === undefined) return undefined;
  return {
    kind: "planned",
    decisions: best.decisions,
    plan: best.plan,
    expectedMs: estimate.latencyMs(best.decisions),
    stats: { estimates, accepted, startMs: first.ms, memoryShare: best.memoryShare },
  };
}

interface Judged {
  readonly memoryShare: number;
  readonly ms: number;
}

/** Plans that fit come first, then those that overflow least. */
const byFitThenMs = (a: Judged, b: Judged): number =>
  Math.max(1, a.memoryShare) - Math.max(1, b.memoryShare) || a.ms - b.ms;

/** Mean over draws of kernel noise, so that a plan does not win by a coincidence of exact times. */
function noisyMs(problem: PlanningProblem, plan: InferencePlan, seed: number): number {
  let sum = 0;
  for (let draw = 0; draw < DEFAULTS.draws; draw += 1)
    sum += execute(problem, plan, { random: randomFrom(seed, `judge ${draw}`) }).latencyMs;
  return sum / DEFAULTS.draws;
}

const usualEstimates = ({ operationCount }: PlanningProblem): number =>
  Math.min(DEFAULTS.most, Math.ceil(DEFAULTS.work / Math.max(1, operationCount)));

function usualStarts(problem: PlanningProblem, parameterRoom: Float64Array): Decisions[] {
  const { gpuCount, busOf } = problem;
  const fastest = fastestGpu(problem);
  const all = Array.from({ length: gpuCount }, (_, gpu) => gpu);
  const onePerBus = all.filter((gpu) => busOf.indexOf(busOf[gpu] ?? 0) === gpu || gpu === fastest);
  const direct = withDirect(problem, allOn(problem, fastest));
  const deepPlan = deepPlanDecisions(problem);
  const kernels = problem.kernelMs.reduce((sum, each) => sum + each, 0) / gpuCount;
  const typical = kernels / Math.max(1, problem.operationCount);
  const lists = [0, typical, 8 * typical].flatMap((reluctanceMs) => [
    listSchedule(problem, { from: direct, reluctanceMs, parameterRoom }),
    listSchedule(problem, { from: direct, reluctanceMs, landing: all, parameterRoom }),
    listSchedule(problem, { from: direct, reluctanceMs, computing: onePerBus, parameterRoom }),
  ]);
  const alone = listSchedule(problem, { from: direct, computing: [fastest], landing: all });
  return [
    allOn(problem, fastest),
    direct,
    alone,
    ...(deepPlan === undefined ? [] : [deepPlan]),
    ...lists,
  ];
}

interface Annealing {
  readonly decisions: Decisions;
  readonly estimates: number;
  readonly random: Random;
  readonly estimate: { readonly latencyMs: (decisions: Decisions) => number };
}

function anneal(
  problem: PlanningProblem,
  { decisions, estimates, random, estimate }: Annealing,
): { readonly best: Decisions; readonly accepted: number } {
  const current = copyDecisions(decisions);
  const { move, undo } = mover(problem, current);
  let currentMs = estimate.latencyMs(current);
  let best = copyDecisions(current);
  let bestMs = currentMs;
  let accepted = 0;
  const hot = Math.min(DEFAULTS.hottest, DEFAULTS.hotTimesOperations / problem.operationCount);
  const cooling = Math.log(DEFAULTS.cold / hot);
  for (let step = 0; step < estimates; step += 1) {
    if (!move(random)) continue;
    const triedMs = estimate.latencyMs(current);
    const temperatureMs = bestMs * hot * Math.exp((cooling * step) / estimates);
    const worse = triedMs - currentMs;
    if (worse > 0 && random.unit() >= Math.exp(-worse / temperatureMs)) {
      undo();
      continue;
    }
    accepted += 1;
    currentMs = triedMs;
    if (triedMs < bestMs - 1e-9) {
      bestMs = triedMs;
      best = copyDecisions(current);
    }
  }
  return { best, accepted };
}

/** Peak memory of results when the operations run one after the other on one GPU. */
export function activationPeakBytes(problem: PlanningProblem): number {
  const { operationCount, outputBytes, inputs, readers } = problem;
  const unread = Int32Array.from({ length: operationCount }, (_, at) => listAt(readers, at).length);
  let live = 0;
  let peak = 0;
  for (let operation = 0; operation < operationCount; operation += 1) {
    live += outputBytes[operation] ?? 0;
    peak = Math.max(peak, live);
    for (const input of listAt(inputs, operation)) {
      const left = (unread[input] ?? 0) - 1;
      unread[input] = left;
      if (left === 0) live -= outputBytes[input] ?? 0;
    }
  }
  return peak;
}
