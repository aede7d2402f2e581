/**
 * @file The keys of a job file that say which model it trains: a preset or a file, the model's configuration, the batch, and the tokens of a sample.
 *
 * A file lies on the hosts, or on the submitter's machine; `submit` puts the part of a `config.json` that counts into `modelConfig`, and a measured
 * profile into `modelProfile`, so that the fleet can plan without that file.
 */

import { z } from "zod";
import { FRAMEWORKS } from "../model/framework-names.ts";
import { modelPreset } from "../model/model-presets.ts";
import { HF_MODEL_TYPES, readHfConfig } from "../model/parse-hf-config.ts";
import { sequenceProblem, type TransformerShape } from "../model/transformer-shape.ts";
import { gpuType } from "../file/file-words.ts";
import { choice, leaf, readText, refused, text, wholeNumber } from "../file/schema-leaf.ts";
import { gpuTeraflops } from "../values/gpu-speed.ts";
import type { Reading } from "../values/quantity.ts";
import { problemAt, valueAt, type SchemaProblem } from "../file/schema-problems.ts";

/** Published profiles of a thousand operators have some 30,000. */
export const MAX_PROFILE_CHARS = 48 * 1024;
/** The GPU of PipeDream's and MSR's profiles. */
export const USUAL_PROFILED_ON = "V100";
const BASE64 = "^[A-Za-z0-9+/]+={0,2}$";

function readProfile(value: unknown): Reading<string> {
  const read = readText(value, MAX_PROFILE_CHARS);
  return read.kind === "refused" || new RegExp(BASE64).test(read.value)
    ? read
    : refused(
        "it is no base64",
        "name the profile's file as model, and orbweaver submit fills it in",
      );
}

export const MODEL_KEYS = {
  model: text({
    description:
      "A preset's name, a file that describes the model, or a folder with its config.json; the processes find it in ORBWEAVER_MODEL. An .onnx file of an inference job without run.command is served by Orbweaver itself.",
    maxLength: 500,
    examples: ["gpt2-large"],
  }).optional(),
  modelConfig: z
    .record(z.string(), z.unknown())
    .meta({
      description: `The keys of the model's config.json (Hugging Face): a model_type of ${HF_MODEL_TYPES.join(", ")}, and its sizes. \`orbweaver submit\` fills it in where \`model\` names such a file or folder.`,
      examples: [{ model_type: "gpt2", n_layer: 12, n_embd: 768, n_head: 12, vocab_size: 50257 }],
    })
    .optional(),
  modelProfile: leaf<string, string>(
    {
      description:
        "A profile of the model's operators (PipeDream's text or MSR's JSON), gzipped, in base64. `orbweaver submit` fills it in where `model` names such a file.",
      type: "string",
      pattern: BASE64,
      maxLength: MAX_PROFILE_CHARS,
    },
    readProfile,
  ).optional(),
  profiledOn: gpuType({
    description: `The GPU type that the profile was measured on. Default: ${USUAL_PROFILED_ON}.`,
    examples: [USUAL_PROFILED_ON],
  }).optional(),
  batch: wholeNumber({
    min: 1,
    max: 1_000_000_000,
    description: "Global batch size; the processes find it in ORBWEAVER_BATCH.",
    examples: [512],
  }).optional(),
  sequence: wholeNumber({
    min: 1,
    max: 10_000_000,
    description:
      "Tokens of a sample, for a model that is a preset or has a modelConfig. Default: what the model's shape says.",
    examples: [8192],
  }).optional(),
  steps: wholeNumber({
    min: 1,
    max: 1_000_000_000,
    description:
      "Steps of the whole training, over all of its runs: `status` says about when it ends, by measured steps or those that its plan predicts.",
    examples: [20_000],
  }).optional(),
  framework: choice(FRAMEWORKS, {
    description:
      "The framework that trains the model: the plan counts its memory and traffic, and has its arguments. Default: megatron.",
  }).optional(),
};

/** The transformer that a job trains, by its name. */
export interface JobModel {
  readonly name: string;
  readonly shape: TransformerShape;
}

interface ModelPart {
  readonly model?: string | undefined;
  readonly modelConfig?: Readonly<Record<string, unknown>> | undefined;
  readonly sequence?: number | undefined;
}

/** Undefined where the description says no shape: the model is a file of another kind, or none. */
export function jobModel({ model, modelConfig, sequence }: ModelPart): JobModel | undefined {
  const found = shapeOf(model, modelConfig);
  if (found === undefined) return undefined;
  return sequence === undefined ? found : { ...found, shape: { ...found.shape, sequence } };
}

function shapeOf(
  model: string | undefined,
  config: ModelPart["modelConfig"],
): JobModel | undefined {
  if (config !== undefined) {
    const read = readHfConfig(config);
    return read.kind === "wrong"
      ? undefined
      : { name: modelTitle(model ?? "", read.name), shape: read.shape };
  }
  const preset = model === undefined ? undefined : modelPreset(model);
  return preset === undefined ? undefined : { name: preset[0], shape: preset[1] };
}

/** The folder of a `config.json` mostly has the model's name. */
export function modelTitle(model: string, type: string): string {
  const parts = model.split("/").filter((part) => part !== "" && part !== ".");
  const name = parts.at(-1) === "config.json" ? parts.at(-2) : parts.at(-1);
  return name === undefined ? type : `${type} (${name})`;
}

function profileProblem(
  file: unknown,
): { readonly key: string; readonly message: string; readonly remedy: string } | undefined {
  const [profile, config, on] = ["modelProfile", "modelConfig", "profiledOn"].map((key) =>
    valueAt(file, [key]),
  );
  if (profile !== undefined && config !== undefined)
    return {
      key: "modelProfile",
      message: "modelConfig says another model",
      remedy: "leave one of modelProfile and modelConfig out",
    };
  if (typeof on !== "string" || gpuTeraflops(on) !== undefined) return undefined;
  return {
    key: "profiledOn",
    message: `the speed of ${on} is not known`,
    remedy: "name the type that the times were measured on, e.g. V100",
  };
}

/** What is wrong with the model of a job file as it was written. */
export function modelProblems(file: unknown): SchemaProblem[] {
  const [model, config, sequence] = ["model", "modelConfig", "sequence"].map((key) =>
    valueAt(file, [key]),
  );
  const name = typeof model === "string" ? model : undefined;
  const isConfig = typeof config === "object" && config !== null && !Array.isArray(config);
  const entries = isConfig ? Object.fromEntries(Object.entries(config)) : undefined;
  const problem = (
    path: readonly string[],
    { message, remedy }: { readonly message: string; readonly remedy: string },
  ): SchemaProblem => ({ path, part: "value", value: valueAt(file, path), message, remedy });
  const profile = profileProblem(file);
  if (profile !== undefined) return [problemAt(file, [profile.key], profile)];
  if (entries !== undefined) {
    const read = readHfConfig(entries);
    if (read.kind === "wrong")
      return read.problems.map(({ key, ...what }) => problem(["modelConfig", key], what));
    if (name !== undefined && modelPreset(name) !== undefined)
      return [
        problem(["modelConfig"], {
          message: `the preset ${name} says another shape`,
          remedy: "leave one of model and modelConfig out",
        }),
      ];
  }
  if (typeof sequence !== "number") return [];
  const shape = shapeOf(name, entries)?.shape;
  if (shape === undefined)
    return [
      problem(["sequence"], {
        message: "nothing says the shape of the model",
        remedy: "write a preset as model, or modelConfig, or leave it out",
      }),
    ];
  const wrong = sequenceProblem(shape, sequence);
  return wrong === undefined ? [] : [problem(["sequence"], wrong)];
}
