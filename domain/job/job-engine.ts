/**
 * @file Inference jobs whose command is an engine for language models: their rules, and what their plan is to keep.
 *
 * Such a job has `class: inference`, `serve.engine`, a model whose shape the description says, and a command in which `ORBWEAVER_ENGINE_ARGS` stands.
 * It runs once on one host, whatever its gang.
 */

import { valueAt, type SchemaProblem } from "../file/schema-problems.ts";
import {
  ENGINE_ARGS_VARIABLE,
  type EngineChoice,
  type ServiceGoal,
} from "../model/engine-names.ts";
import {
  decoderProblem,
  requestProblem,
  type TransformerShape,
} from "../model/transformer-shape.ts";
import { jobModel } from "./job-model.ts";

/** The key `serve` of such a job, with its defaults. */
export interface EngineRule extends Omit<ServiceGoal, "contextTokens"> {
  readonly engine: EngineChoice;
  readonly contextTokens?: number;
}

export interface EngineFile {
  readonly engine?: EngineChoice | undefined;
  readonly ttft?: number | undefined;
  readonly tpot?: number | undefined;
  readonly prompt?: number | undefined;
  readonly output?: number | undefined;
  readonly context?: number | undefined;
}

/** Tokens of a usual request where nobody says how many. */
export const USUAL_REQUEST: UsualRequest = Object.freeze({
  promptTokens: 1024,
  outputTokens: 256,
});

export type UsualRequest = Pick<ServiceGoal, "promptTokens" | "outputTokens">;

const ENGINE_KEYS = ["ttft", "tpot", "prompt", "output", "context"] as const;
const ONNX_KEYS = ["port", "maxBatch", "batchWindow", "queue"] as const;

/** Of a job file as it was written, readable or not. */
export const isEngineFile = (file: unknown): boolean =>
  valueAt(file, ["serve", "engine"]) !== undefined;

/** The rules have checked that both times are there. */
export function engineRule(file: EngineFile | undefined): EngineRule | undefined {
  const { engine, ttft, tpot, prompt, output, context } = file ?? {};
  if (engine === undefined || ttft === undefined || tpot === undefined) return undefined;
  return {
    engine,
    ttftMs: ttft,
    tpotMs: tpot,
    promptTokens: prompt ?? USUAL_REQUEST.promptTokens,
    outputTokens: output ?? USUAL_REQUEST.outputTokens,
    ...(context !== undefined && { contextTokens: context }),
  };
}

/** For a model of this shape. */
export function serviceGoal(
  { ttftMs, tpotMs, promptTokens, outputTokens, contextTokens }: Omit<EngineRule, "engine">,
  { sequence }: TransformerShape,
): ServiceGoal {
  return {
    ttftMs,
    tpotMs,
    promptTokens,
    outputTokens,
    contextTokens: contextTokens ?? Math.max(sequence, promptTokens + outputTokens),
  };
}

type Told = Pick<SchemaProblem, "message" | "remedy">;

/** What is wrong with the keys of such a job; of any other job, which of those keys it has. */
export function engineProblems(file: unknown): SchemaProblem[] {
  const at = (path: readonly string[]): unknown => valueAt(file, path);
  const problem = (path: readonly string[], told: Told): SchemaProblem => ({
    path,
    part: "value",
    value: at(path),
    ...told,
  });
  if (!isEngineFile(file))
    return ENGINE_KEYS.filter((key) => at(["serve", key]) !== undefined).map((key) =>
      problem(["serve", key], {
        message: "it says nothing without serve.engine",
        remedy: "write engine: vllm or engine: sglang, or leave it out",
      }),
    );
  const wrong: (SchemaProblem | undefined)[] = [
    at(["class"]) === "inference"
      ? undefined
      : problem(["class"], {
          message: "only an inference job has serve.engine",
          remedy: "write class: inference, or leave serve out",
        }),
    ...(["ttft", "tpot"] as const).map((key) =>
      at(["serve", key]) !== undefined
        ? undefined
        : problem(["serve", key], { message: "missing", remedy: "write a time such as 500ms" }),
    ),
    ...ONNX_KEYS.map((key) =>
      at(["serve", key]) === undefined
        ? undefined
        : problem(["serve", key], {
            message: "it is for .onnx models that Orbweaver serves itself",
            remedy: "leave it out, and give the engine its own arguments in run.command",
          }),
    ),
    commandProblem(at(["run", "command"]), problem),
    shapeProblem(file, problem),
    ...oneProcessProblems(at, problem),
  ];
  return wrong.filter((each) => each !== undefined);
}

type Problem = (path: readonly string[], told: Told) => SchemaProblem;

const SHELL = /(^|\/)(sh|bash|dash|zsh)$/;

/** A line is read by a shell. A program that is started without one reads its variables itself. */
function commandProblem(command: unknown, problem: Problem): SchemaProblem | undefined {
  const words: readonly unknown[] = Array.isArray(command) ? command : [command];
  const isNamed = words.some(
    (word) => typeof word === "string" && word.includes(ENGINE_ARGS_VARIABLE),
  );
  const [program] = words;
  const hasShell = !Array.isArray(command) || (typeof program === "string" && SHELL.test(program));
  if (isNamed === hasShell) return undefined;
  return problem(["run", "command"], {
    message: hasShell
      ? `$${ENGINE_ARGS_VARIABLE} does not stand in it, so the engine would not follow the plan`
      : `without a shell $${ENGINE_ARGS_VARIABLE} stays as it is written`,
    remedy: `write a line such as vllm serve /models/llama $${ENGINE_ARGS_VARIABLE}`,
  });
}

function shapeProblem(file: unknown, problem: Problem): SchemaProblem | undefined {
  const [model, config] = [valueAt(file, ["model"]), valueAt(file, ["modelConfig"])];
  const isConfig = typeof config === "object" && config !== null && !Array.isArray(config);
  const found = jobModel({
    ...(typeof model === "string" && { model }),
    ...(isConfig && { modelConfig: Object.fromEntries(Object.entries(config)) }),
  });
  // A configuration that cannot be read has problems of its own.
  if (found === undefined && config !== undefined) return undefined;
  if (found === undefined)
    return problem(["model"], {
      message: "nothing says the shape of the model",
      remedy: "write a preset, the path of its config.json beside this file, or modelConfig",
    });
  const wrong = decoderProblem(found.shape);
  return wrong === undefined
    ? lengthProblem(file, found.shape, problem)
    : problem(["model"], { message: wrong, remedy: "name a language model, or leave serve out" });
}

/** Of the requests that the file says; what is no number has a problem of its own. */
function lengthProblem(
  file: unknown,
  shape: TransformerShape,
  problem: Problem,
): SchemaProblem | undefined {
  const [prompt, output, context] = ["prompt", "output", "context"].map((key) => {
    const value = valueAt(file, ["serve", key]);
    return typeof value === "number" ? value : undefined;
  });
  const rule = engineRule({ engine: "vllm", ttft: 0, tpot: 0, prompt, output, context });
  const wrong = rule && requestProblem(shape, serviceGoal(rule, shape));
  const key = context !== undefined ? "context" : prompt !== undefined ? "prompt" : "output";
  return wrong && problem(["serve", key], wrong);
}

const oneProcessProblems = (
  at: (path: readonly string[]) => unknown,
  problem: Problem,
): readonly SchemaProblem[] =>
  (
    [
      [["array"], undefined, "leave it out; submit a job for each service"],
      [["constraints", "sameHost"], false, "leave it out; an engine has the GPUs of one host"],
      [["run", "launch"], "per-gpu", "leave it out; an engine starts its own processes"],
    ] as const
  ).flatMap(([path, wrong, remedy]) => {
    const value = at(path);
    if (value === undefined || (wrong !== undefined && value !== wrong)) return [];
    return [problem(path, { message: "an engine is one process on one host", remedy })];
  });
