/**
 * @file Plans how an ONNX model is served over so many lanes: measures its operators, searches, cuts the answer into parts.
 *
 * A lane is a thread of the host's processor that stands for a GPU: all alike, every parameter in its own memory from the start,
 * values handed over through shared memory. Operators are timed here, on the machine that plans, for the search; then the
 * parts that it found, because a part is not the sum of its operators. So the expected time is this machine's, medians throughout.
 * What lanes cost beside their parts is given: measured by who can open lanes. A plan over lanes that is expected to gain less
 * than `LEAST_GAIN` over one lane is not taken.
 */

import { createHash } from "node:crypto";
import type { InferenceHost, PeerWay } from "../domain/inference-host.ts";
import { checkOperatorGraph } from "../domain/operator-graph.ts";
import { problemText } from "../domain/problem.ts";
import type { ServingPlan } from "../domain/serving-plan.ts";
import { readOnnxModel, type OnnxModel } from "../models/onnx-model.ts";
import {
  MEASURED_DEVICE,
  onnxOperatorGraph,
  type OnnxOperatorGraph,
} from "../models/onnx-operator-graph.ts";
import { partList, retimedMs, type RunCosts } from "../models/part-list.ts";
import { partTimes } from "../models/part-times.ts";
import { planningProblem } from "../scheduling/inference/problem.ts";
import { searchPlan } from "../scheduling/inference/search.ts";

export interface ServingOptions {
  /** Sizes of open dimensions; others are 1. */
  readonly bindings?: ReadonlyMap<string, number>;
  readonly timedRuns?: number;
  /** What timing the operators may take, and as much again timing the parts. */
  readonly budgetMs?: number;
  readonly seed?: number;
  readonly lanes?: LaneCosts;
}

export interface LaneCosts extends Omit<RunCosts, "operationMs"> {
  /** Lanes that can work at the same time; a model is split over no more. */
  readonly atOnce: number;
}

/**
 * Where nobody has measured the host's own (`workers/serving/lane-costs.ts`): of two idle cores of today's servers. Handing a value on
 * takes it out of the runtime's memory, and through another core's cache.
 */
export const LANE_COSTS: LaneCosts = Object.freeze({
  requestMs: 0.1,
  partMs: 0.03,
  handMs: 0.03,
  handMsPerByte: 1 / 4e6,
  besideFactor: 1.05,
  atOnce: Infinity,
});

export interface PlannedServing {
  readonly plan: ServingPlan;
  readonly measured: OnnxOperatorGraph;
}

export type PlanServing =
  | ({ readonly kind: "planned" } & PlannedServing)
  | { readonly kind: "refused"; readonly message: string };

const TIMED_RUNS = 10;
/** A fifth of a second for the runs alone, and as much for those under a profile. */
const LEAST_TIMED_MS = 200;
const MOST_TIMED_MS = 5_000;
const LEAST_GAIN = 0.03;

export interface ModelFile {
  readonly name: string;
  readonly bytes: Uint8Array;
}

export async function planServing(
  { name, bytes }: ModelFile,
  gpus: number,
  options: ServingOptions = {},
): Promise<PlanServing> {
  const read = readOnnxModel(bytes, name);
  if (read.kind === "refused") return read;
  const measured = await onnxOperatorGraph(read.model, {
    timedRuns: options.timedRuns ?? TIMED_RUNS,
    leastMs: options.timedRuns === undefined ? LEAST_TIMED_MS : 0,
    ...(options.bindings !== undefined && { bindings: options.bindings }),
    ...(options.budgetMs !== undefined && { budgetMs: options.budgetMs }),
  });
  if (measured.kind === "refused") {
    return { kind: "refused", message: `${name} cannot be planned: ${measured.message}` };
  }
  const plan = await planOver(read.model, measured, { gpus, options });
  if (typeof plan === "string") return { kind: "refused", message: `${name}: ${plan}` };
  return { kind: "planned", measured, plan: { model: identityOf({ name, bytes }), gpus, ...plan } };
}

export const identityOf = ({ name, bytes }: ModelFile): ServingPlan["model"] => ({
  name: name.slice(-500),
  sha256: createHash("sha256").update(bytes).digest("hex"),
});

type Planned = Pick<ServingPlan, "parts" | "expectedMs" | "wholeMs">;

async function planOver(
  model: OnnxModel,
  { graph, operators, trace }: OnnxOperatorGraph,
  { gpus, options }: { readonly gpus: number; readonly options: ServingOptions },
): Promise<Planned | string> {
  const checked = checkOperatorGraph(graph, model.name);
  if (checked.kind === "refused") {
    return checked.problems.map((problem) => problemText(checked.source, problem)).join("; ");
  }
  const lanes = options.lanes ?? LANE_COSTS;
  const runMs = trace.runMs ?? 0;
  const wholeMs = lanes.requestMs + runMs;
  const whole: Planned = {
    parts: [{ gpu: 0, operators: operators.flat().sort((a, b) => a - b) }],
    expectedMs: wholeMs,
    wholeMs,
  };
  const used = Math.min(gpus, lanes.atOnce);
  if (used === 1 || graph.operations.length < 2) return whole;
  const resident = graph.parameters.flatMap((_, parameter) =>
    Array.from({ length: used }, (_each, gpu) => ({ parameter, gpu })),
  );
  const problem = planningProblem(graph, lanesHost(used, lanes), {
    order: checked.order,
    resident,
  });
  const found = searchPlan(problem, { seed: options.seed ?? 1 });
  if (found.kind === "too large") return found.message;
  // Of the run that was timed, the call of the runtime is the part's.
  const operatorsShare = runMs > 0 ? Math.max(0, runMs - lanes.partMs) / runMs : 1;
  const costs = {
    ...lanes,
    operationMs: graph.operations.map(
      ({ measured }) =>
        (measured?.find(({ device }) => device === MEASURED_DEVICE)?.kernelMs ?? 0) *
        operatorsShare,
    ),
  };
  const { parts } = partList(graph, found.plan, costs);
  if (parts.length === 1) return whole;
  const cut = parts.map(({ gpu, operations }) => ({
    gpu,
    operators: operations.flatMap((one) => operators[one] ?? []).sort((a, b) => a - b),
  }));
  const timed = await partTimes(
    model,
    cut.map(({ operators: places }) => places),
    { inputs: trace.inputs, ...timingOf(options) },
  );
  if (timed.kind === "refused") return timed.message;
  const expectedMs = retimedMs(graph, parts, { partMs: timed.partMs, costs });
  const wholeBesideMs = lanes.requestMs + timed.wholeMs;
  if (expectedMs > wholeBesideMs * (1 - LEAST_GAIN)) {
    return { ...whole, expectedMs: wholeBesideMs, wholeMs: wholeBesideMs };
  }
  return { parts: cut, expectedMs, wholeMs: wholeBesideMs };
}

const timingOf = ({ timedRuns, budgetMs }: ServingOptions) => ({
  rounds: timedRuns ?? TIMED_RUNS,
  leastMs: timedRuns === undefined ? LEAST_TIMED_MS : 0,
  budgetMs: budgetMs ?? MOST_TIMED_MS,
});

/** Lanes as the planner's host: parameters are where they are read, so buses carry nothing. */
export function lanesHost(gpus: number, { handMs, handMsPerByte }: LaneCosts): InferenceHost {
  const device = {
    kind: MEASURED_DEVICE,
    // Only for operators that were not measured; of one core of today's servers.
    ...{ peakTflops: 0.1, gemmShare: 0.5, memoryGBs: 10, memoryShare: 0.8, launchUs: 2 },
    memoryGiB: 1_024,
  };
  const names = Array.from({ length: gpus }, (_, gpu) => gpu);
  const way: PeerWay = { kind: "nvlink", peerGBs: 1 / (handMsPerByte * 1e6) };
  return {
    name: `${gpus} lanes`,
    gpus: names.map((gpu) => ({ name: `lane${gpu}`, device, slowdown: 1, bus: gpu })),
    buses: names.map((gpu) => ({ name: `lane${gpu}`, busGBs: 10 })),
    peers: names.map((a) => names.map((b): PeerWay => (a === b ? { kind: "self" } : way))),
    copyUs: handMs * 1e3,
  };
}
