/** @file `orbweaver plan --host`: one inference model over the GPUs of one host, planned, executed in simulated time and printed. */

import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { InferenceFacts } from "../../domain/model/inference-facts.ts";
import type { InferenceHost } from "../../domain/model/inference-host.ts";
import { checkOperatorGraph, type OperatorGraph } from "../../domain/model/operator-graph.ts";
import { execute } from "../../planning/inference/executor.ts";
import { planFacts } from "../../planning/inference/plan-facts.ts";
import { planningProblem, type PlanningProblem } from "../../planning/inference/problem.ts";
import { searchPlan, type PlanFound } from "../../planning/inference/search.ts";
import { chromeTrace, timelineSvg } from "../../planning/inference/timeline.ts";
import type { CommandContext } from "../command/command-context.ts";
import { inferencePlanText } from "../text/inference-plan.ts";
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
  else context.print(inferencePlanText(document));
}

function problemOf(graph: OperatorGraph, host: InferenceHost): PlanningProblem {
  const checked = checkOperatorGraph(graph, graph.name);
  if (checked.kind === "refused") throw refusal(graph.name, checked.problems);
  return planningProblem(graph, host, { order: checked.order });
}

interface PlanDocument extends InferenceFacts {
  readonly stats: unknown;
  readonly plan: unknown;
}

function documentOf(
  problem: PlanningProblem,
  found: Extract<PlanFound, { kind: "planned" }>,
): PlanDocument {
  const { graph, host } = problem;
  const named = (index: number): string => graph.operations[index]?.id ?? String(index);
  const parameterName = (index: number): string => graph.parameters[index]?.id ?? String(index);
  return {
    ...planFacts(problem, found),
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
