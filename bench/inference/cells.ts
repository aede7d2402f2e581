/** @file The cells of the comparison: a model at a shape on a host, with every contender's latency over the same draws of noise. */

import { join } from "node:path";
import { readInferenceHost } from "../../cli/planning/inference-source.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import type { InferenceHost } from "../../domain/model/inference-host.ts";
import type { InferencePlan } from "../../domain/model/inference-plan.ts";
import { checkOperatorGraph, type OperatorGraph } from "../../domain/model/operator-graph.ts";
import { problemText } from "../../domain/values/problem.ts";
import { randomFrom } from "../../lib/random.ts";
import { bounds, type Bounds } from "../../planning/inference/bounds.ts";
import { allOn, keptTogether, planOf } from "../../planning/inference/decisions.ts";
import { efficientMipDecisions } from "../rivals/inference/efficient-mip.ts";
import { execute, type ExecuteOptions } from "../../planning/inference/executor.ts";
import {
  PAPER_MODELS,
  PAPER_SHAPES,
  paperGraph,
  type PaperModel,
} from "../../planning/inference/paper-models.ts";
import type { InputShape } from "../../planning/inference/graph-builder.ts";
import {
  planningProblem,
  type PlanningProblem,
  type ProblemOptions,
} from "../../planning/inference/problem.ts";
import {
  copiesThenKernelsMs,
  deepPlanDecisions,
  fastestGpu,
  overlappedPlan,
} from "../../planning/inference/rivals.ts";
import { searchPlan, type PlanFound } from "../../planning/inference/search.ts";
import { mean } from "../statistics.ts";

export const PAPER_HOSTS = ["v100", "v100-hetero", "a6000"] as const;

export interface Cell {
  readonly host: string;
  readonly model: PaperModel;
  readonly shape: InputShape;
  readonly problem: PlanningProblem;
}

export interface Measured {
  readonly cell: string;
  readonly host: string;
  readonly model: string;
  /** Copies, then kernels, on the fastest GPU; absent when it does not fit. */
  readonly baseMs: number | undefined;
  readonly oursMs: number;
  readonly expectedMs: number;
  /** Absent, like the rivals below, when it does not fit. */
  readonly overlapMs: number | undefined;
  readonly deepPlanMs: number | undefined;
  readonly efficientMipMs: number | undefined;
  readonly bounds: Bounds;
  readonly copyMs: number;
  readonly kernelMs: number;
  readonly memoryShare: number;
  readonly planCpuMs: number;
  readonly planWallMs: number;
  readonly problem: PlanningProblem;
  readonly plan: InferencePlan;
}

export interface MeasureOptions {
  readonly seed: number;
  readonly draws: number;
  /** 0: the planner's own choice. */
  readonly estimates: number;
}

export const hostNamed = (name: string): InferenceHost =>
  readInferenceHost(join("data", "hosts", `${name}.yaml`), {
    cwd: packageRoot(),
    profiledOn: "V100",
  });

export function problemFor(
  graph: OperatorGraph,
  host: InferenceHost,
  options: ProblemOptions = {},
): PlanningProblem {
  const checked = checkOperatorGraph(graph, graph.name);
  if (checked.kind === "checked")
    return planningProblem(graph, host, { ...options, order: checked.order });
  throw new Error(checked.problems.map((each) => problemText(checked.source, each)).join("\n"));
}

export function paperCells(hosts: readonly string[], options: ProblemOptions = {}): Cell[] {
  return hosts.flatMap((host) => {
    const parsed = hostNamed(host);
    return PAPER_MODELS.flatMap((model) =>
      PAPER_SHAPES.map((shape) => ({
        host,
        model,
        shape,
        problem: problemFor(paperGraph(model, shape), parsed, options),
      })),
    );
  });
}

export const cellName = ({ host, model, shape }: Cell): string =>
  `${host} ${model} (${shape.batch}, ${shape.sequence})`;

/** Mean over draws of noise; the draws are the same for every plan. */
export function executedMs(
  problem: PlanningProblem,
  plan: InferencePlan,
  { seed, draws, ...options }: Pick<MeasureOptions, "seed" | "draws"> & ExecuteOptions,
): number {
  return overDraws(
    { seed, draws },
    (random) => execute(problem, plan, { ...options, random }).latencyMs,
  );
}

function overDraws(
  { seed, draws }: Pick<MeasureOptions, "seed" | "draws">,
  latencyMs: (random: ReturnType<typeof randomFrom>) => number,
): number {
  return mean(
    Array.from({ length: draws }, (_, draw) => latencyMs(randomFrom(seed, `kernels ${draw}`))),
  );
}

export const baseMs = (problem: PlanningProblem, options: MeasureOptions): number =>
  overDraws(options, (random) =>
    copiesThenKernelsMs(problem, allOn(problem, fastestGpu(problem)), { random }),
  );

export function search(
  problem: PlanningProblem,
  { seed, estimates }: MeasureOptions,
): Extract<PlanFound, { kind: "planned" }> {
  const found = searchPlan(problem, { seed, ...(estimates > 0 && { estimates }) });
  if (found.kind === "planned") return found;
  throw new Error(found.message);
}

/** Every contender on one problem; `host` and `model` only name it. */
export function measure(
  problem: PlanningProblem,
  names: Pick<Measured, "cell" | "host" | "model">,
  options: MeasureOptions,
): Measured {
  const startMs = performance.now();
  const cpu = process.cpuUsage();
  const found = search(problem, options);
  const used = process.cpuUsage(cpu);
  const planWallMs = performance.now() - startMs;
  const executed = (plan: InferencePlan): number => executedMs(problem, plan, options);
  const deepPlan = deepPlanDecisions(problem);
  const speeds = new Set(
    problem.host.gpus.map(({ device, slowdown }) => `${device.kind} ${slowdown}`),
  );
  const gpu = fastestGpu(problem);
  const isFitting = (plan: InferencePlan): boolean =>
    execute(problem, plan).peakBytes.every((bytes, at) => bytes <= (problem.memoryBytes[at] ?? 0));
  const fits = isFitting(planOf(problem, allOn(problem, gpu)));
  const executedIfFitting = (plan: InferencePlan): number | undefined =>
    isFitting(plan) ? executed(plan) : undefined;
  const kept = keptTogether(problem, efficientMipDecisions(problem));
  let kernelMs = 0;
  for (let operation = 0; operation < problem.operationCount; operation += 1)
    kernelMs += problem.kernelMs[operation * problem.gpuCount + gpu] ?? 0;
  const bytes = problem.parameterBytes.reduce((sum, each) => sum + each, 0);
  return {
    ...names,
    baseMs: fits ? baseMs(problem, options) : undefined,
    oursMs: executed(found.plan),
    expectedMs: found.expectedMs,
    overlapMs: executedIfFitting(overlappedPlan(problem)),
    deepPlanMs: deepPlan === undefined ? undefined : executedIfFitting(planOf(problem, deepPlan)),
    // It does not know of unequal GPUs.
    efficientMipMs:
      speeds.size > 1 || !isFitting(planOf(problem, kept))
        ? undefined
        : overDraws(options, (random) => copiesThenKernelsMs(problem, kept, { random })),
    bounds: bounds(problem),
    copyMs: bytes * (problem.busMsPerByte[problem.busOf[gpu] ?? 0] ?? 0),
    kernelMs,
    memoryShare: found.stats.memoryShare,
    planCpuMs: (used.user + used.system) / 1e3,
    planWallMs,
    problem,
    plan: found.plan,
  };
}
