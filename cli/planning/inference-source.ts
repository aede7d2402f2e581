/**
 * @file What `orbweaver plan --host` and `bench inference` are given: models and hosts by name or file, read whole or refused.
 *
 * Models: `GPT2-xl@4x128` and the like (batch × tokens), an ONNX file, a PipeDream profile, an MSR graph, a table of layer times, or
 * several of them with commas between. Hosts: a host file, or the output of `nvidia-smi topo -m` (also as a Markdown table), whose
 * GPUs are of the kind that `profiledOn` names. An ONNX file profiled on `cpu-thread` is timed here, operator by operator.
 */

import { existsSync, readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { formatProblem } from "../../domain/values/file-problem.ts";
import {
  knownDevice,
  KNOWN_DEVICES,
  type InferenceDevice,
} from "../../domain/model/inference-device.ts";
import {
  hostFromTopology,
  parseInferenceHost,
  type InferenceHost,
} from "../../domain/model/inference-host.ts";
import type { OperatorGraph } from "../../domain/model/operator-graph.ts";
import { isLayerTimes } from "../../domain/model/parse-layer-times.ts";
import { parseMsrGraph } from "../../domain/model/parse-msr-graph.ts";
import { parseTopology } from "../../domain/bandwidth/parse-topology.ts";
import { parsePipeDream } from "../../domain/model/parse-pipedream.ts";
import { problemText, type Problem } from "../../domain/values/problem.ts";
import { joinedGraph } from "../../planning/inference/joined-graph.ts";
import { PAPER_MODELS, paperGraph } from "../../planning/inference/paper-models.ts";
import { profiledGraph } from "../../planning/inference/profiled-graph.ts";
import { measuredPreset, tableGraph } from "./layer-times-source.ts";

/** The syntax of presets, for help and messages. */
const INFERENCE_PRESETS = `${[...PAPER_MODELS, "llama-3.1-8b"].join(", ")}, each with @<batch>x<tokens>, e.g. ${PAPER_MODELS[0]}@1x32`;

export interface GraphOptions {
  readonly cwd: string;
  readonly profiledOn: string;
  readonly bindings?: ReadonlyMap<string, number>;
}

/** Several names separated by commas are models that are requested together. */
export async function readInferenceGraph(
  names: string,
  options: GraphOptions,
): Promise<OperatorGraph> {
  if (existsSync(resolve(options.cwd, names))) return readOneGraph(names, options);
  const graphs: OperatorGraph[] = [];
  for (const name of names.split(",")) {
    if (name.trim() === "")
      throw new OrbweaverError(
        "BAD_INPUT",
        `${JSON.stringify(names)} has a comma without a model on one side. Write model,model.`,
      );
    graphs.push(await readOneGraph(name.trim(), options));
  }
  return joinedGraph(graphs);
}

async function readOneGraph(name: string, options: GraphOptions): Promise<OperatorGraph> {
  const { cwd, profiledOn, bindings } = options;
  const preset = measuredPreset(name) ?? paperPreset(name);
  if (preset !== undefined) return preset;
  const bytes = readInput(name, cwd, `A preset is one of ${INFERENCE_PRESETS}.`);
  if (/\.onnx$/i.test(name)) return onnxGraph(bytes, name, options);
  const text = (/\.gz$/i.test(name) ? unpacked(bytes, name) : bytes).toString("utf8");
  const file = basename(name);
  if (isLayerTimes(text)) {
    const [batch = 1, sequence = 128] = [bindings?.get("batch"), bindings?.get("tokens")];
    const { kind: device } = deviceNamed(profiledOn);
    return tableGraph(text, { file, device, shape: { batch, sequence } });
  }
  const isJson = /^\s*[{[]/.test(text) || /\.json(?:\.gz)?$/i.test(name);
  const read = isJson ? parseMsrGraph(text, file) : parsePipeDream(text, file);
  if (read.kind === "refused") throw refusal(name, read.problems);
  if (read.graph.nodes.every(({ isBackward }) => isBackward))
    throw new OrbweaverError(
      "BAD_INPUT",
      `${name}: all ${read.graph.nodes.length} nodes run backward. Inference needs nodes that run forward.`,
    );
  return profiledGraph(read.graph, deviceNamed(profiledOn));
}

function paperPreset(name: string): OperatorGraph | undefined {
  const parts = /^(?<model>[\w-]+)@(?<batch>\d{1,4})x(?<sequence>\d{1,4})$/.exec(name)?.groups;
  const asked = parts?.["model"]?.toLowerCase();
  const model = PAPER_MODELS.find((each) => each.toLowerCase() === asked);
  const [batch, sequence] = [Number(parts?.["batch"]), Number(parts?.["sequence"])];
  if (model === undefined || !(batch > 0 && sequence > 0)) return undefined;
  return paperGraph(model, { batch, sequence });
}

/** Number of runs that time the operators. */
const TIMED_RUNS = 20;

async function onnxGraph(
  bytes: Buffer,
  name: string,
  { profiledOn, bindings }: GraphOptions,
): Promise<OperatorGraph> {
  // Loaded on use, because it loads onnxruntime.
  const [{ readOnnxModel }, { MEASURED_DEVICE, onnxOperatorGraph }] = await Promise.all([
    import("../../models/onnx/onnx-model.ts"),
    import("../../models/onnx/onnx-operator-graph.ts"),
  ]);
  const read = readOnnxModel(bytes, name);
  if (read.kind === "refused") throw new OrbweaverError("BAD_INPUT", read.message);
  const isTimed = profiledOn === MEASURED_DEVICE;
  const made = await onnxOperatorGraph(read.model, {
    ...(bindings !== undefined && { bindings }),
    ...(isTimed && { timedRuns: TIMED_RUNS }),
  });
  if (made.kind === "made") {
    const sizes = [...made.trace.sizes].map(([dimension, size]) => `${dimension} ${size}`);
    if (sizes.length === 0) return made.graph;
    return { ...made.graph, name: `${made.graph.name} (${sizes.join(", ")})` };
  }
  const open = read.model.inputs
    .flatMap(({ shape }) => shape ?? [])
    .flatMap((each) => (typeof each === "string" && each !== "?" ? [each] : []));
  const unbound = [...new Set(open)].filter((each) => bindings?.has(each) !== true);
  const remedy =
    unbound.length === 0
      ? ""
      : `. Open dimensions count as 1: ${unbound.join(", ")}. Give their sizes, e.g. --bind ${unbound[0] ?? ""}=8`;
  throw new OrbweaverError("BAD_INPUT", `${made.message}${remedy}`);
}

export function readInferenceHost(
  name: string,
  { cwd, profiledOn }: { readonly cwd: string; readonly profiledOn: string },
): InferenceHost {
  const remedy = "Name a host file, or one with the output of nvidia-smi topo -m.";
  const text = readInput(name, cwd, remedy).toString("utf8");
  const file = basename(name);
  if (TOPOLOGY.test(text)) {
    const parsed = parseTopology(text, { source: file });
    if (parsed.kind === "refused") throw refusal(name, parsed.problems);
    return hostFromTopology(parsed.topology, { name: file, device: deviceNamed(profiledOn) });
  }
  const parsed = parseInferenceHost(text, { file });
  if (parsed.kind === "parsed") return parsed.host;
  const problems = parsed.problems.map(formatProblem);
  throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
}

/** A line of a matrix that begins with GPU0, underlined by an escape sequence or within a table of Markdown. */
const TOPOLOGY = /^[\s|]*(?:\S*\[4m)?\s*GPU0(?:[\s|]|$)/m;

function unpacked(bytes: Buffer, name: string): Buffer {
  try {
    return gunzipSync(bytes);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError("BAD_INPUT", `${name} is not gzipped (${why}). Give it without .gz.`);
  }
}

function readInput(name: string, cwd: string, remedy: string): Buffer {
  try {
    return readFileSync(resolve(cwd, name));
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new OrbweaverError("BAD_INPUT", `there is no file ${name} to read (${why}). ${remedy}`);
  }
}

function deviceNamed(name: string): InferenceDevice {
  const device = knownDevice(name);
  if (device !== undefined) return device;
  const kinds = KNOWN_DEVICES.map(({ kind }) => kind).join(", ");
  throw new OrbweaverError(
    "BAD_INPUT",
    `the speed is not known of GPU type ${name}. Known: ${kinds}.`,
  );
}

export const refusal = (name: string, problems: readonly Problem[]): OrbweaverError => {
  const lines = problems.map((problem) => problemText(name, problem));
  return new OrbweaverError("BAD_INPUT", lines.join("\n"), { details: { problems: lines } });
};
