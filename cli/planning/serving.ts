/** @file `orbweaver plan --serve`: how an engine serves a language model over GPUs, planned and printed. */

import { Option, type Command } from "commander";
import { parseDuration } from "../../domain/values/dimensions.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { serviceGoal, USUAL_REQUEST, type EngineRule } from "../../domain/job/job-engine.ts";
import { ENGINES, type EngineChoice } from "../../domain/model/engine-names.ts";
import type { PlanModel } from "../../planning/parallelism/models.ts";
import type { PlanSite } from "../../planning/parallelism/site.ts";
import { planServing } from "../../planning/serving/plan-serving.ts";
import { servingDocument } from "../../planning/serving/serving-document.ts";
import { servingSite } from "../../planning/serving/serving-site.ts";
import type { CommandContext } from "../command/command-context.ts";
import { wholeNumber } from "../command/option-values.ts";
import { widthOf } from "../terminal/io.ts";
import { servingPlanText } from "./serving-text.ts";

export interface ServingValues {
  readonly serve?: EngineChoice;
  /** Milliseconds. */
  readonly ttft?: number;
  readonly tpot?: number;
  readonly prompt?: number;
  readonly answer?: number;
  readonly context?: number;
  readonly rate?: number;
}

export const withServingOptions = (verb: Command): Command =>
  verb
    .addOption(
      new Option(
        "--serve <engine>",
        "plan how an engine serves a language model (needs --ttft and --tpot)",
      )
        .choices(ENGINES)
        .conflicts(["batch", "framework", "dp", "pp", "tp", "host"]),
    )
    .option(
      "--ttft <time>",
      "longest time to the first token of 99 in 100 (with --serve)",
      time("--ttft"),
    )
    .option(
      "--tpot <time>",
      "longest time for each further token of 99 in 100 (with --serve)",
      time("--tpot"),
    )
    .option(
      "--prompt <tokens>",
      `tokens of a usual prompt (with --serve; default: ${USUAL_REQUEST.promptTokens})`,
      wholeNumber("--prompt", 1),
    )
    .option(
      "--answer <tokens>",
      `tokens of a usual answer (with --serve; default: ${USUAL_REQUEST.outputTokens})`,
      wholeNumber("--answer", 1),
    )
    .option(
      "--context <tokens>",
      "tokens of the longest request with its answer (with --serve)",
      wholeNumber("--context", 2),
    )
    .option(
      "--rate <requests/s>",
      "requests that come in a second: take the fewest GPUs that keep up (with --serve)",
      requestsPerS,
    );

/** What is to be served, by flags before the job file; undefined when neither says an engine. */
export function engineOf(
  values: ServingValues,
  job: EngineRule | undefined,
): EngineRule | undefined {
  const engine = values.serve ?? job?.engine;
  if (engine === undefined) {
    const flag = (["ttft", "tpot", "prompt", "answer", "context", "rate"] as const).find(
      (name) => values[name] !== undefined,
    );
    if (flag === undefined) return undefined;
    throw new OrbweaverError(
      "BAD_INPUT",
      `--${flag} says nothing without an engine. Add --serve vllm or --serve sglang, or leave it out.`,
    );
  }
  const [ttftMs, tpotMs] = [values.ttft ?? job?.ttftMs, values.tpot ?? job?.tpotMs];
  if (ttftMs === undefined || tpotMs === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `nothing says the longest ${ttftMs === undefined ? "time to the first token. Give --ttft, e.g. --ttft 500ms" : "time for a further token. Give --tpot, e.g. --tpot 40ms"}.`,
    );
  const context = values.context ?? job?.contextTokens;
  return {
    engine,
    ttftMs,
    tpotMs,
    promptTokens: values.prompt ?? job?.promptTokens ?? USUAL_REQUEST.promptTokens,
    outputTokens: values.answer ?? job?.outputTokens ?? USUAL_REQUEST.outputTokens,
    ...(context !== undefined && { contextTokens: context }),
  };
}

export interface ServingRequest {
  readonly rule: EngineRule;
  readonly model: PlanModel;
  readonly site: PlanSite;
  readonly ratePerS: number | undefined;
  readonly isJson: boolean;
}

export function answerServing(
  context: CommandContext,
  { rule, model, site, ratePerS, isJson }: ServingRequest,
): void {
  const { name, shape } = model;
  if (shape === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `${name} is no transformer by its shape. Name a preset or a config.json.`,
    );
  const found = servingSite(site);
  if (found.kind === "blocked") throw new OrbweaverError("BAD_INPUT", found.message);
  const answer = planServing({
    name,
    shape,
    site: found.site,
    goal: serviceGoal(rule, shape),
    ...(ratePerS !== undefined && { ratePerS }),
  });
  if (answer.kind === "blocked") throw new OrbweaverError("BAD_INPUT", answer.message);
  const document = servingDocument(answer.plan, { engine: rule.engine, shape });
  if (isJson)
    context.printJson({ ...document, ...(ratePerS !== undefined && { statedRatePerS: ratePerS }) });
  else
    context.print(
      servingPlanText(document, {
        site: found.site,
        width: widthOf(context.io.stdout),
        ...(ratePerS !== undefined && { ratePerS }),
      }),
    );
}

function time(flag: string): (text: string) => number {
  return (text) => {
    const read = parseDuration(text);
    if (read.kind === "read" && read.value > 0) return read.value;
    throw new OrbweaverError(
      "BAD_INPUT",
      `${flag}: ${JSON.stringify(text)} is no time. Write e.g. ${flag} 500ms.`,
    );
  };
}

function requestsPerS(text: string): number {
  const rate = Number(text);
  if (rate > 0 && Number.isFinite(rate)) return rate;
  throw new OrbweaverError(
    "BAD_INPUT",
    `--rate: ${JSON.stringify(text)} is no rate. Write requests a second, e.g. --rate 2.5.`,
  );
}
