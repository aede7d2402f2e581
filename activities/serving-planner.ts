/**
 * @file Plans how an ONNX model is served over a number of lanes: measures its operators, searches, and splits the model into
 * parts.
 *
 * A lane is a thread of the host's processor that stands for a GPU. All lanes are alike, hold their parameters in memory from
 * the start, and exchange values through shared memory. Operators are timed on the planning machine for the search; the chosen
 * parts are timed again, because the time of a part is not the sum of its operators. So the expected time is that of this
 * machine; all figures are medians. The overhead of lanes is given by the caller, which can open lanes. A plan over lanes that
 * is expected to gain less than `LEAST_GAIN` over one lane is not used.
 */

import { createHash } from "node:crypto";
import type { InferenceHost, PeerWay } from "../domain/model/inference-host.ts";
import { checkOperatorGraph } from "../domain/model/operator-graph.ts";
import type { ServedDevices } from "../domain/job/serving-env.ts";
import { problemText } from "../domain/values/problem.ts";
import type { ServingPlan } from "../domain/model/serving-plan.ts";
import { readOnnxModel, type OnnxModel } from "../models/onnx/onnx-model.ts";
import {
  MEASURED_DEVICE,
  onnxOperatorGraph,
  type OnnxOperatorGraph,
} from "../models/onnx/onnx-operator-graph.ts";
import { partList, retimedMs, type RunCosts } from "../models/onnx/part-list.ts";
import { partTimes } from "../models/onnx/part-times.ts";
import { planningProblem } from "../planning/inference/problem.ts";
import { searchPlan } from "../planning/inference/search.ts";
import { CALL_COSTS, gpuPlan, type GpuPlan } from "./serving-gpu-plan.ts";

export interface ServingOptions {
  /** Sizes of open dimensions; others are 1. */
  readonly bindings?: ReadonlyMap<string, number>;
  readonly timedRuns?: number;
  /** Time limit for timing the operators, and again for timing the parts. */
  readonly budgetMs?: number;
  readonly seed?: number;
  readonly lanes?: LaneCosts;
  /** The lease's GPUs; the model is planned over them from cold as well. */
  readonly gpuHost?: InferenceHost;
  /** `cuda`: `gpuHost` runs the parts, so its plan is served. */
  readonly devices?: ServedDevices;
}

export interface LaneCosts extends Omit<RunCosts, "operationMs"> {
  /** Lanes that can work at the same time; a model is split over at most this many. */
  readonly atOnce: number;
}

/**
 * Used where the host's own figures (`workers/serving/lane-costs.ts`) are not known: of two idle cores of today's servers.
 * Sending a value takes it out of the runtime's memory, and through another core's cache.
 */
export const LANE_COSTS: LaneCosts = Object.freeze({
  ...CALL_COSTS,
  handMsPerByte: 1 / 4e6,
  besideFactor: 1.05,
  atOnce: Infinity,
});

export interface PlannedServing {
  readonly plan: ServingPlan;
  readonly measured: OnnxOperatorGraph;
  /** Present when `gpuHost` was given. */
  readonly onGpus?: GpuPlan;
}

export type PlanServing =
  | ({ readonly kind: "planned" } & PlannedServing)
  | { readonly kind: "refused"; readonly message: string };

const TIMED_RUNS = 10;
/** A fifth of a second for plain runs, and as much for profiled runs. */
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
  const { gpuHost, devices } = options;
  const onGpus = gpuHost && gpuPlan(measured.graph, gpuHost);
  const plan =
    devices === "cuda"
      ? planByCuda(read.model, measured, onGpus)
      : await planOver(read.model, measured, { gpus, options });
  if (typeof plan === "string") return { kind: "refused", message: `${name}: ${plan}` };
  return {
    kind: "planned",
    measured,
    plan: { model: identityOf({ name, bytes }), gpus, ...plan },
    ...(onGpus !== undefined && { onGpus }),
  };
}

/** A hash takes as long as loading the file, and a service whose plan is another file's asks twice: bytes that are served stay as they were read. */
const hashes = new WeakMap<Uint8Array, string>();

export function identityOf({ name, bytes }: ModelFile): ServingPlan["model"] {
  const sha256 = hashes.get(bytes) ?? createHash("sha256").update(bytes).digest("hex");
  hashes.set(bytes, sha256);
  return { name: name.slice(-500), sha256 };
}

type Planned = Pick<ServingPlan, "devices" | "parts" | "expectedMs" | "wholeMs">;

/** The whole model on the first GPU: what is served by CUDA where there is no plan over the GPUs. */
export const wholeByCuda = ({ operators }: OnnxModel): Planned => ({
  devices: "cuda",
  parts: [{ gpu: 0, operators: [...operators.keys()] }],
});

function planByCuda(
  model: OnnxModel,
  { operators }: OnnxOperatorGraph,
  onGpus: GpuPlan | undefined,
): Planned {
  if (onGpus?.kind !== "planned") return wholeByCuda(model);
  const { parts, expectedMs } = onGpus.parts;
  return {
    devices: "cuda",
    parts: parts.map(({ gpu, operations }) => ({
      gpu,
      operators: operations.flatMap((one) => operators[one] ?? []).sort((a, b) => a - b),
    })),
    expectedMs,
  };
}

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
  // In a timed run, the time of the runtime's call belongs to the part.
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
function lanesHost(gpus: number, { handMs, handMsPerByte }: LaneCosts): InferenceHost {
  const device = {
    kind: MEASURED_DEVICE,
    // Only for operators without a measurement; of one core of today's servers.
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
