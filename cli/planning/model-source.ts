/**
 * @file Reads the model to plan: a preset by name, or a file: config.json, PipeDream profile, MSR graph (also gzipped), ONNX.
 *
 * Measured times are taken as those of `profiledOn`. An ONNX file is traced once with its open dimensions bound, which gives
 * FLOPs, sizes and parameters.
 */

import { readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { readPackedProfile } from "../../activities/launch-extras/packed-profile.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { gpuTeraflops } from "../../domain/values/gpu-speed.ts";
import { modelTitle } from "../../domain/job/job-model.ts";
import { MODEL_PRESETS, modelPreset } from "../../domain/model/model-presets.ts";
import { checkOperatorGraph } from "../../domain/model/operator-graph.ts";
import { isHfConfig, parseHfConfig } from "../../domain/model/parse-hf-config.ts";
import { parseProfile } from "../../domain/model/parse-profile.ts";
import { sequenceProblem, type TransformerShape } from "../../domain/model/transformer-shape.ts";
import { graphModel, operatorModel, type PlanModel } from "../../planning/parallelism/models.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { configPath, modelRefusal } from "./embedded-model.ts";

export interface ModelSourceOptions {
  readonly cwd: string;
  /** GPU type of a profile's times. */
  readonly profiledOn: string;
  /** Sizes of an ONNX file's open dimensions. */
  readonly bindings?: ReadonlyMap<string, number>;
  /** Tokens of a sample, in place of those that the model's shape says. */
  readonly sequence?: number;
}

export async function readPlanModel(
  name: string,
  { cwd, profiledOn, bindings, sequence }: ModelSourceOptions,
): Promise<PlanModel> {
  const preset = modelPreset(name);
  if (preset !== undefined) return presetModel(preset[0], trainedAt(preset[1], name, sequence));
  const teraflops = gpuTeraflops(profiledOn);
  if (teraflops === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `the speed is not known of GPU type ${profiledOn}. Name the type that the times were measured on, e.g. V100.`,
    );
  const path = configPath(resolve(cwd, name));
  const bytes = readModelFile(path, name);
  if (/\.onnx$/i.test(name)) return await onnxPlanModel(bytes, name, bindings);
  const text = (/\.gz$/i.test(name) ? gunzipSync(bytes) : bytes).toString("utf8");
  const file = basename(name);
  if (isHfConfig(text)) {
    const parsed = parseHfConfig(text, file);
    if (parsed.kind === "refused") throw modelRefusal(name, parsed.problems);
    return presetModel(modelTitle(path, parsed.name), trainedAt(parsed.shape, name, sequence));
  }
  if (sequence !== undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `--sequence: ${name} is no transformer by its shape. Leave it out, or name a preset or a config.json.`,
    );
  const read = parseProfile(text, file);
  if (read.kind === "refused") throw modelRefusal(name, read.problems);
  return graphModel(read.graph, teraflops);
}

/** The profile that a job file carries. */
export function packedModel(
  packed: string,
  options: { readonly name: string; readonly profiledOn: string },
): PlanModel {
  const read = readPackedProfile(packed, options);
  if (read.kind === "read") return read.model;
  throw modelRefusal(options.name, read.problems);
}

/** With so many tokens a sample, where that is said. */
export function trainedAt(
  shape: TransformerShape,
  name: string,
  sequence: number | undefined,
): TransformerShape {
  if (sequence === undefined) return shape;
  const wrong = sequenceProblem(shape, sequence);
  if (wrong === undefined) return { ...shape, sequence };
  throw new OrbweaverError(
    "BAD_INPUT",
    `--sequence: ${sequence} is not for ${name}: ${wrong.message}. ${wrong.remedy[0]?.toUpperCase() ?? ""}${wrong.remedy.slice(1)}.`,
  );
}

function readModelFile(path: string, name: string): Buffer {
  try {
    return readFileSync(path);
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
  // Loaded on use, because it loads onnxruntime.
  const [{ readOnnxModel }, { onnxOperatorGraph }] = await Promise.all([
    import("../../models/onnx/onnx-model.ts"),
    import("../../models/onnx/onnx-operator-graph.ts"),
  ]);
  const read = readOnnxModel(bytes, name);
  if (read.kind === "refused") throw new OrbweaverError("BAD_INPUT", read.message);
  const made = await onnxOperatorGraph(read.model, bindings === undefined ? {} : { bindings });
  if (made.kind === "refused") throw new OrbweaverError("BAD_INPUT", made.message);
  const checked = checkOperatorGraph(made.graph, name);
  if (checked.kind === "refused") throw modelRefusal(name, checked.problems);
  return operatorModel(made.graph, checked.order, 1);
}
