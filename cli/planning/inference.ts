/**
 * @file `orbweaver plan --host`: one inference model over the GPUs of one host, from files to the printed plan.
 *
 * Models: `GPT2-xl@4x128` and the like (batch × tokens), an ONNX file, a PipeDream profile, an MSR graph, a table of layer times, or
 * several of them with commas between. Hosts: a host file, or the
 * output of `nvidia-smi topo -m`, whose GPUs are of the kind that `--profiled-on` names.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { OrbweaverError } from "../../domain/failure.ts";
import { formatProblem } from "../../domain/file-problem.ts";
import { knownDevice, KNOWN_DEVICES, type InferenceDevice } from "../../domain/inference-device.ts";
import {
  hostFromTopology,
  parseInferenceHost,
  type InferenceHost,
} from "../../domain/inference-host.ts";
import { checkOperatorGraph, type OperatorGraph } from "../../domain/operator-graph.ts";
import { isLayerTimes } from "../../domain/parse-layer-times.ts";
import { parseMsrGraph } from "../../domain/parse-msr-graph.ts";
import { parseNvidiaSmiTopo } from "../../domain/parse-nvidia-smi.ts";
import { parsePipeDream } from "../../domain/parse-pipedream.ts";
import { problemText, type Problem } from "../../domain/problem.ts";
import { bounds } from "../../scheduling/inference/bounds.ts";
import { execute } from "../../scheduling/inference/executor.ts";
import { joinedGraph } from "../../scheduling/inference/joined-graph.ts";
import { PAPER_MODELS, paperGraph } from "../../scheduling/inference/paper-models.ts";
import { planningProblem, type PlanningProblem } from "../../scheduling/inference/problem.ts";
import { profiledGraph } from "../../scheduling/inference/profiled-graph.ts";
import { fastestGpu, overlappedPlan, seriesMs } from "../../scheduling/inference/rivals.ts";
import { searchPlan, type PlanFound } from "../../scheduling/inference/search.ts";
import { chromeTrace, timelineSvg } from "../../scheduling/inference/timeline.ts";
import type { Kit } from "../kit.ts";
import { measuredPreset, tableGraph } from "./layer-times-source.ts";

export interface InferenceOptions {
  readonly model: string;
  readonly host: string;
  readonly profiledOn: string;
  readonly bindings?: ReadonlyMap<string, number>;
  readonly json: boolean;
  /** Files to write: a picture, a trace for Perfetto. */
  readonly timeline?: string;
  readonly trace?: string;
}

export async function planInference(kit: Kit, options: InferenceOptions): Promise<void> {
  const { cwd } = kit.io;
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
  if (options.json) kit.printJson(document);
  else kit.print(textOf(document));
}

export interface GraphOptions {
  readonly cwd: string;
  readonly profiledOn: string;
  readonly bindings?: ReadonlyMap<string, number>;
}

/** Names with commas between are several models that are asked together. */
export async function readInferenceGraph(
  names: string,
  options: GraphOptions,
): Promise<OperatorGraph> {
  const graphs: OperatorGraph[] = [];
  for (const name of names.split(",")) graphs.push(await readOneGraph(name, options));
  return joinedGraph(graphs);
}

async function readOneGraph(
  name: string,
  { cwd, profiledOn, bindings }: GraphOptions,
): Promise<OperatorGraph> {
  const measured = measuredPreset(name);
  if (measured !== undefined) return measured;
  const preset = /^(?<model>[\w-]+)@(?<batch>\d{1,4})x(?<sequence>\d{1,4})$/.exec(name)?.groups;
  const model = PAPER_MODELS.find((each) => each === preset?.["model"]);
  const [batch, sequence] = [Number(preset?.["batch"]), Number(preset?.["sequence"])];
  if (model !== undefined && batch > 0 && sequence > 0)
    return paperGraph(model, { batch, sequence });
  const bytes = readInput(
    name,
    cwd,
    `Presets: ${PAPER_MODELS.map((each) => `${each}@1x32`).join(", ")}, llama-3.1-8b@1x32.`,
  );
  if (/\.onnx$/i.test(name)) {
    // Loaded here: it brings a runtime for models along.
    const [{ readOnnxModel }, { onnxOperatorGraph }] = await Promise.all([
      import("../../models/onnx-model.ts"),
      import("../../models/onnx-operator-graph.ts"),
    ]);
    const read = readOnnxModel(bytes, name);
    if (read.kind === "refused") throw new OrbweaverError("BAD_INPUT", read.message);
    const made = await onnxOperatorGraph(read.model, bindings === undefined ? {} : { bindings });
    if (made.kind === "refused") throw new OrbweaverError("BAD_INPUT", made.message);
    return made.graph;
  }
  const text = (/\.gz$/i.test(name) ? gunzipSync(bytes) : bytes).toString("utf8");
  const file = basename(name);
  if (isLayerTimes(text)) {
    const [batch = 1, sequence = 128] = [bindings?.get("batch"), bindings?.get("tokens")];
    const { kind: device } = deviceNamed(profiledOn);
    return tableGraph(text, { file, device, shape: { batch, sequence } });
  }
  const read = text.trimStart().startsWith("{")
    ? parseMsrGraph(text, file)
    : parsePipeDream(text, file);
  if (read.kind === "refused") throw refusal(name, read.problems);
  return profiledGraph(read.graph, deviceNamed(profiledOn));
}

export function readInferenceHost(
  name: string,
  { cwd, profiledOn }: { readonly cwd: string; readonly profiledOn: string },
): InferenceHost {
  const remedy = "Name a host file, or one with the output of nvidia-smi topo -m.";
  const text = readInput(name, cwd, remedy).toString("utf8");
  const file = basename(name);
  if (/^\s*(?:\S*\[4m)?\s*GPU0\s/m.test(text)) {
    const parsed = parseNvidiaSmiTopo(text, { source: file });
    if (parsed.kind === "refused") throw refusal(name, parsed.problems);
    return hostFromTopology(parsed.topology, { name: file, device: deviceNamed(profiledOn) });
  }
  const parsed = parseInferenceHost(text, { file });
  if (parsed.kind === "parsed") return parsed.host;
  const problems = parsed.problems.map(formatProblem);
  throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
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
    speedUp: series / executed.latencyMs,
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
  return [
    `${plan.model} on ${plan.host}: ${ms(plan.simulatedMs)} from cold, ${plan.speedUp.toFixed(2)} × one GPU`,
    `  expected      ${ms(plan.expectedMs)}`,
    `  one GPU       ${ms(plan.oneGpuMs.series)} (copies, then kernels), ${ms(plan.oneGpuMs.overlapped)} overlapped`,
    `  no plan below ${ms(plan.lowerBoundMs)}`,
    "",
    "GPU        OPERATIONS  DIRECT      BUSY  MEMORY",
    ...plan.gpus.map(
      ({ name, operations, direct, busyMs, peakGiB }) =>
        `${name.padEnd(10)} ${String(operations).padStart(10)} ${String(direct).padStart(7)} ${ms(busyMs).padStart(9)}  ${peakGiB.toFixed(1)} GiB`,
    ),
    "",
    ...plan.buses.map(
      ({ name, copies, gb }) => `bus ${name}: ${copies} parameters, ${gb.toFixed(2)} GB`,
    ),
  ].join("\n");
}

function readInput(name: string, cwd: string, remedy: string): Buffer {
  try {
    return readFileSync(resolve(cwd, name));
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new OrbweaverError("BAD_INPUT", `${name} cannot be read (${why}). ${remedy}`);
  }
}

function deviceNamed(name: string): InferenceDevice {
  const device = knownDevice(name);
  if (device !== undefined) return device;
  const kinds = KNOWN_DEVICES.map(({ kind }) => kind).join(", ");
  throw new OrbweaverError(
    "BAD_INPUT",
    `no speed is known of the GPU type ${name}. Known: ${kinds}.`,
  );
}

const refusal = (name: string, problems: readonly Problem[]): OrbweaverError => {
  const lines = problems.map((problem) => problemText(name, problem));
  return new OrbweaverError("BAD_INPUT", lines.join("\n"), { details: { problems: lines } });
};
