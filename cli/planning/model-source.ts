/**
 * @file The model that a plan is made of: a preset by name, or a file: PipeDream profile, MSR graph (also gzipped), ONNX.
 *
 * Measured times count as those of `profiledOn`. An ONNX file is traced once with its open dimensions bound, which gives FLOPs, sizes and parameters.
 */

import { readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { OrbweaverError } from "../../domain/failure.ts";
import { gpuTeraflops } from "../../domain/gpu-speed.ts";
import { MODEL_PRESETS, modelPreset } from "../../domain/model-presets.ts";
import { checkOperatorGraph } from "../../domain/operator-graph.ts";
import { parseMsrGraph } from "../../domain/parse-msr-graph.ts";
import { parsePipeDream } from "../../domain/parse-pipedream.ts";
import { problemText, type Problem } from "../../domain/problem.ts";
import {
  graphModel,
  operatorModel,
  presetModel,
  type PlanModel,
} from "../../scheduling/plan/models.ts";

export interface ModelSourceOptions {
  readonly cwd: string;
  /** GPU type that a profile's times are from. */
  readonly profiledOn: string;
  /** Sizes of an ONNX file's open dimensions. */
  readonly bindings?: ReadonlyMap<string, number>;
}

export const PROFILED_ON = "V100";

export async function readPlanModel(
  name: string,
  { cwd, profiledOn, bindings }: ModelSourceOptions,
): Promise<PlanModel> {
  const preset = modelPreset(name);
  if (preset !== undefined) return presetModel(...preset);
  const teraflops = gpuTeraflops(profiledOn);
  if (teraflops === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `no speed is known of the GPU type ${profiledOn}. Name the type that the times were measured on, e.g. V100.`,
    );
  const bytes = readModelFile(name, cwd);
  if (/\.onnx$/i.test(name)) return await onnxPlanModel(bytes, name, bindings);
  const text = (/\.gz$/i.test(name) ? gunzipSync(bytes) : bytes).toString("utf8");
  const file = basename(name);
  const read = text.trimStart().startsWith("{")
    ? parseMsrGraph(text, file)
    : parsePipeDream(text, file);
  if (read.kind === "refused") throw refusal(name, read.problems);
  return graphModel(read.graph, teraflops);
}

function readModelFile(name: string, cwd: string): Buffer {
  try {
    return readFileSync(resolve(cwd, name));
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new OrbweaverError(
      "BAD_INPUT",
      `${name} is neither a preset nor a file that can be read (${why}). Presets: ${[...MODEL_PRESETS.keys()].join(", ")}.`,
    );
  }
}

async function onnxPlanModel(
  bytes: Buffer,
  name: string,
  bindings: ReadonlyMap<string, number> | undefined,
): Promise<PlanModel> {
  // Loaded here: it brings a runtime for models along.
  const [{ readOnnxModel }, { onnxOperatorGraph }] = await Promise.all([
    import("../../models/onnx-model.ts"),
    import("../../models/onnx-operator-graph.ts"),
  ]);
  const read = readOnnxModel(bytes, name);
  if (read.kind === "refused") throw new OrbweaverError("BAD_INPUT", read.message);
  const made = await onnxOperatorGraph(read.model, bindings === undefined ? {} : { bindings });
  if (made.kind === "refused") throw new OrbweaverError("BAD_INPUT", made.message);
  const checked = checkOperatorGraph(made.graph, name);
  if (checked.kind === "refused") throw refusal(name, checked.problems);
  return operatorModel(made.graph, checked.order, 1);
}

const refusal = (name: string, problems: readonly Problem[]): OrbweaverError => {
  const lines = problems.map((problem) => problemText(name, problem));
  return new OrbweaverError("BAD_INPUT", lines.join("\n"), { details: { problems: lines } });
};
