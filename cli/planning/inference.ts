/** @file `orbweaver plan --host`: one inference model over the GPUs of one host, planned, executed in simulated time and printed. */

import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { InferenceHost } from "../../domain/model/inference-host.ts";
import { checkOperatorGraph, type OperatorGraph } from "../../domain/model/operator-graph.ts";
import { bounds } from "../../planning/inference/bounds.ts";
import { execute } from "../../planning/inference/executor.ts";
import { planningProblem, type PlanningProblem } from "../../planning/inference/problem.ts";
import { fastestGpu, overlappedPlan, seriesMs } from "../../planning/inference/rivals.ts";
import { searchPlan, type PlanFound } from "../../planning/inference/search.ts";
import { chromeTrace, timelineSvg } from "../../planning/inference/timeline.ts";
import type { CommandContext } from "../command/command-context.ts";
import { readInferenceGraph, readInferenceHost, refusal } from "./inference-source.ts";

export interface InferenceOptions {
  readonly model: string;
  readonly host: string;
  readonly profiledOn: string;
  readonly bindings?: ReadonlyMap<string, number>;
  readonly json: boolean;
  /** Files to write: an SVG timeline, a trace for Perfetto. */
  readonly timeline?: string;
  readonly trace?: string;
}

export async function planInference(
  context: CommandContext,
  options: InferenceOptions,
): Promise<void> {
  const { cwd } = context.io;
  const graph = await readInferenceGraph(options.model, { cwd, ...options });
  const host = readInferenceHost(options.host, { cwd, profiledOn: options.profiledOn });
  const problem = problemOf(graph, host);
  const found = searchPlan(problem);
  if (found.kind === "too large")
    throw new OrbweaverError("BAD_INPUT", `${found.message}. Name a host with more memory.`);
  const { spans } = execute(problem, found.plan);
  if (options.timeline !== undefined)
    writeFileSync(
      resolve(cwd, options.timeline),
      timelineSvg(host, spans, `${graph.name} on ${host.name}`),
    );
  if (options.trace !== undefined)
    writeFileSync(resolve(cwd, options.trace), chromeTrace(host, spans));
  const document = documentOf(problem, found);
  if (options.json) context.printJson(document);
  else context.print(textOf(document));
}

function problemOf(graph: OperatorGraph, host: InferenceHost): PlanningProblem {
  const checked = checkOperatorGraph(graph, graph.name);
  if (checked.kind === "refused") throw refusal(graph.name, checked.problems);
  return planningProblem(graph, host, { order: checked.order });
}

interface PlanDocument {
  readonly model: string;
  readonly host: string;
  readonly expectedMs: number;
  /** Executed by the simulator of the paper's executor, without noise. */
  readonly simulatedMs: number;
  readonly oneGpuMs: { readonly series: number; readonly overlapped: number };
  readonly lowerBoundMs: number;
  readonly speedUp: number;
  readonly gpus: readonly GpuRow[];
  readonly buses: readonly {
    readonly name: string;
    readonly copies: number;
    readonly gb: number;
  }[];
  readonly stats: unknown;
  readonly plan: unknown;
}

interface GpuRow {
  readonly name: string;
  readonly operations: number;
  readonly direct: number;
  readonly busyMs: number;
  readonly peakGiB: number;
}

function documentOf(
  problem: PlanningProblem,
  found: Extract<PlanFound, { kind: "planned" }>,
): PlanDocument {
  const { graph, host } = problem;
  const executed = execute(problem, found.plan);
  const series = seriesMs(problem, fastestGpu(problem));
  const bytes = (parameter: number): number => graph.parameters[parameter]?.bytes ?? 0;
  const gpus = host.gpus.map(({ name }, gpu): GpuRow => {
    const queue = found.plan.gpuQueues[gpu] ?? [];
    const own = executed.spans.filter(({ lane }) => lane.kind === "gpu" && lane.index === gpu);
    return {
      name,
      operations: queue.reduce((sum, { operations }) => sum + operations.length, 0),
      direct: queue.filter(({ isDirect }) => isDirect).length,
      busyMs: own.reduce((sum, { startMs, endMs }) => sum + endMs - startMs, 0),
      peakGiB: (executed.peakBytes[gpu] ?? 0) / 2 ** 30,
    };
  });
  const buses = host.buses.map(({ name }, bus) => {
    const copies = found.plan.busQueues[bus] ?? [];
    const gb = copies.reduce((sum, { parameter }) => sum + bytes(parameter), 0) / 1e9;
    return { name, copies: copies.length, gb };
  });
  const named = (index: number): string => graph.operations[index]?.id ?? String(index);
  const parameterName = (index: number): string => graph.parameters[index]?.id ?? String(index);
  return {
    model: graph.name,
    host: host.name,
    expectedMs: found.expectedMs,
    simulatedMs: executed.latencyMs,
    oneGpuMs: { series, overlapped: execute(problem, overlappedPlan(problem)).latencyMs },
    lowerBoundMs: bounds(problem).lowerMs,
    // A model without parameters whose kernels take no time is as fast anywhere.
    speedUp: executed.latencyMs > 0 ? series / executed.latencyMs : 1,
    gpus,
    buses,
    stats: found.stats,
    plan: {
      gpuQueues: found.plan.gpuQueues.map((queue) =>
        queue.map(({ operations, isDirect }) => ({ operations: operations.map(named), isDirect })),
      ),
      busQueues: found.plan.busQueues.map((queue) =>
        queue.map(({ parameter, gpu, forwards }) => ({
          parameter: parameterName(parameter),
          gpu: host.gpus[gpu]?.name,
          forwards: forwards.map((each) => host.gpus[each]?.name),
        })),
      ),
    },
  };
}

function textOf(plan: PlanDocument): string {
  const ms = (value: number): string => `${value.toFixed(value < 10 ? 3 : 1)} ms`;
  const wide = Math.max(9, ...plan.gpus.map(({ name }) => name.length));
  return [
    `${plan.model} on ${plan.host}: ${ms(plan.simulatedMs)} from cold, ${plan.speedUp.toFixed(2)} × one GPU`,
    `  expected      ${ms(plan.expectedMs)}`,
    `  one GPU       ${ms(plan.oneGpuMs.series)} (copies, then kernels), ${ms(plan.oneGpuMs.overlapped)} overlapped`,
    `  no plan below ${ms(plan.lowerBoundMs)}`,
    "",
    `${"GPU".padEnd(wide)}  OPERATIONS  DIRECT       BUSY    MEMORY`,
    ...plan.gpus.map(
      ({ name, operations, direct, busyMs, peakGiB }) =>
        `${name.padEnd(wide)}  ${String(operations).padStart(10)}  ${String(direct).padStart(6)}  ${ms(busyMs).padStart(9)}  ${peakGiB.toFixed(1).padStart(4)} GiB`,
    ),
    "",
    ...plan.buses.map(
      ({ name, copies, gb }) =>
        `bus ${name}: ${copies} ${copies === 1 ? "parameter" : "parameters"}, ${gb.toFixed(2)} GB`,
    ),
  ].join("\n");
}
