/** @file `orbweaver plan`: how to split a model over GPUs, the needs of each part, the step time, and the reasons. */

import { Option, type Command } from "commander";
import { writeFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { formatProblem } from "../../../domain/values/file-problem.ts";
import { parseJobFile, parseJobYaml } from "../../../domain/job/job-file.ts";
import { jobModel, USUAL_PROFILED_ON } from "../../../domain/job/job-model.ts";
import type { JobSpec } from "../../../domain/job/job.ts";
import { randomFrom } from "../../../lib/random.ts";
import { FRAMEWORKS, type FrameworkChoice } from "../../../domain/model/framework-names.ts";
import { operatorAssignment } from "../../../planning/parallelism/operator-assignment.ts";
import { planDocument } from "../../../planning/parallelism/plan-document.ts";
import type { PlanModel } from "../../../planning/parallelism/models.ts";
import { planModel } from "../../../planning/parallelism/plan-operators.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
import { jobFileWith } from "../../command/job-flags.ts";
import { readFleet, readText } from "../../command/fleet-files.ts";
import { widthOf } from "../../terminal/io.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { keyValue, wholeNumber } from "../../command/option-values.ts";
import { embeddedModel } from "../../planning/embedded-model.ts";
import { packedModel, readPlanModel, trainedAt } from "../../planning/model-source.ts";
import {
  answerServing,
  engineOf,
  withServingOptions,
  type ServingValues,
} from "../../planning/serving.ts";
import { learnedHere, measuredIn } from "../../planning/learned-plan.ts";
import type { MeasuredSteps } from "../../planning/measured-steps.ts";
import { planText, reasons, type Planned } from "../../planning/plan-text.ts";
import { fewestOf, fleetFileSite, writtenSite } from "../../planning/site-source.ts";

interface Values extends ServingValues {
  readonly model?: string;
  readonly graph?: string;
  readonly assignment?: string;
  readonly batch?: number;
  readonly sequence?: number;
  readonly gpus?: string;
  readonly fleet?: string;
  readonly least?: number;
  readonly dp?: number;
  readonly pp?: number;
  readonly tp?: number;
  readonly bind?: ReadonlyMap<string, string>;
  readonly framework?: FrameworkChoice;
  readonly profiledOn?: string;
  readonly nvlink: boolean;
  readonly fabric?: number;
  readonly wan?: number;
  readonly host?: string;
  readonly timeline?: string;
  readonly trace?: string;
  readonly json?: boolean;
}

export function planVerb(context: CommandContext): Command {
  const verb = context
    .verb("plan")
    .summary("plan how to split a model over GPUs")
    .description(
      "Chooses the data, pipeline and tensor parallel degrees, the micro-batch, the layers of each stage and their GPUs. Predicts the step time and its parts, and prints arguments for Megatron-LM, DeepSpeed (ZeRO 1 to 3) or PyTorch's FSDP2. Models: a preset (gpt2-1.3b, llama-3-8b, …), a config.json of Hugging Face or its folder (llama, qwen, mistral, mixtral, deepseek, gemma, phi, gpt-neox, gpt2, opt, bert, vit), a PipeDream profile, an MSR graph or an .onnx file. A running job with a preset or a config.json as `model`, and `batch`, gets such a plan automatically.\n\nWith --host: chooses which GPU of one host runs which operation of an inference model, and over which bus each parameter is loaded. Models then: GPT2-large, GPT2-xl, OpenLLaMA-3B, OpenLLaMA-7B and llama-3.1-8b, each with @<batch>x<tokens> (llama-3.1-8b@1x1+2048: one token after 2,048); the same kinds of files; a table of layer times; or several of these separated by commas.\n\nWith --serve: chooses the tensor and pipeline degrees and the replicas with which vLLM or SGLang serves a language model within stated times to the first and to each further token, and prints the engine's arguments. A running job with `serve.engine` gets them automatically.",
    )
    .argument("[job.yaml]", "job file with model, batch and GPU count")
    .option("--model <name or file>", "model to plan")
    .option("--batch <samples>", "samples in one step over all replicas", wholeNumber("--batch", 1))
    .option(
      "--sequence <tokens>",
      "tokens of a sample (default: what the model's shape says, at most 8,192)",
      wholeNumber("--sequence", 1),
    )
    .addOption(
      new Option(
        "--framework <name>",
        "whose memory, traffic and arguments are meant (default: megatron)",
      ).choices(FRAMEWORKS),
    )
    .option("--gpus <host:count,…>", "GPUs to plan for: [cluster/]host:count[:type]")
    .option(
      "--fleet <fleet.yaml>",
      "fleet file to plan for; all its GPUs count as free, and where the fleet runs, its measured steps correct the prediction",
    )
    .option("--dp <n>", "data parallel degree", wholeNumber("--dp", 1))
    .option("--pp <n>", "pipeline parallel degree", wholeNumber("--pp", 1))
    .option("--tp <n>", "tensor parallel degree", wholeNumber("--tp", 1))
    .option("--no-nvlink", "GPUs of a host are joined by PCIe (with --gpus alone)")
    .option(
      "--fabric <GB/s>",
      "bandwidth between hosts (with --gpus alone; default: 1)",
      rate("--fabric"),
    )
    .option(
      "--wan <GB/s>",
      "bandwidth between clusters (with --gpus alone; default: 0.625)",
      rate("--wan"),
    )
    .option(
      "--profiled-on <type>",
      "GPU type that a profile's times are from; with --host also that of a topology's GPUs, and cpu-thread times an ONNX file here (default: the job file's, else V100)",
    )
    .option(
      "--bind <name=size>",
      "size of an ONNX file's open dimension; repeatable",
      keyValue("--bind"),
    )
    .option(
      "--host <file>",
      "plan an inference model over the GPUs of this host: a host file, or nvidia-smi topo -m",
    )
    .option("--timeline <file.svg>", "write a timeline of the run as SVG (with --host)")
    .option("--trace <file.json>", "write a Chrome trace of the run (with --host)")
    .option("--json", "answer with one JSON document");
  return withServingOptions(withGraphOptions(verb))
    .addHelpText("after", helpEnd(EXAMPLES))
    .action(async (file: string | undefined, values: Values) => {
      await answer(context, file === undefined ? undefined : readJob(file, context.io.cwd), values);
    });
}

const EXAMPLES: readonly (readonly [commandLine: string, what: string])[] = [
  ["orbweaver plan --model gpt2-1.3b --batch 64 --gpus a:8", "eight A100 GPUs of one host"],
  ["orbweaver plan job.yaml --fleet fleet.yaml", "a job on an empty fleet"],
  [
    "orbweaver plan --model gpt2-1.3b --batch 64 --gpus a:31 --least 16",
    "31 GPUs, of which some may stay idle",
  ],
  ["orbweaver plan --model llama-70b --batch 256 --gpus eu/h1:8:H100,us/h1:8:H100", "two clusters"],
  [
    "orbweaver plan --model Qwen2.5-7B/config.json --sequence 8192 --batch 64 --gpus a:8:H100",
    "a model of Hugging Face",
  ],
  [
    "orbweaver plan --model llama-3-8b --batch 64 --framework fsdp2 --gpus a:8:H100",
    "sharded by PyTorch's FSDP2",
  ],
  [
    "orbweaver plan --graph graph.txt --batch 32 --gpus a:4:V100 --assignment stages.json",
    "a PipeDream profile; the stage and GPU of each operator in a file",
  ],
  ["orbweaver plan --model model.onnx --host host.yaml", "inference over one host's GPUs"],
  [
    "orbweaver plan --model llama-3.1-8b@1x512 --host topo.txt --profiled-on A6000",
    "on a server of A6000 whose nvidia-smi topo -m is in topo.txt",
  ],
  [
    "orbweaver plan --serve vllm --model llama-3-8b --ttft 500ms --tpot 40ms --gpus a:8:H100",
    "as many requests a second as eight GPUs keep",
  ],
  [
    "orbweaver plan --serve sglang --model llama-3-70b --ttft 1s --tpot 50ms --rate 2 --gpus a:8:H100",
    "the fewest GPUs for two requests a second",
  ],
];

const withGraphOptions = (verb: Command): Command =>
  verb
    .option(
      "--least <GPUs>",
      "other GPUs may stay idle where that is faster (default: the job file's gang.min, else all are used)",
      wholeNumber("--least", 1),
    )
    .addOption(
      new Option(
        "--graph <file>",
        "graph to plan: a PipeDream profile or an MSR graph, whose operators are cut into stages",
      ).conflicts(["model", "host", "serve"]),
    )
    .addOption(
      new Option(
        "--assignment <file.json>",
        "write the stage and the GPUs of each operator of a graph",
      ).conflicts(["host", "serve"]),
    );

async function answer(
  context: CommandContext,
  spec: JobSpec | undefined,
  values: Values,
): Promise<void> {
  const name = values.graph ?? values.model ?? spec?.model ?? (spec?.modelConfig && "modelConfig");
  if (values.host !== undefined)
    return answerForHost(context, name, { ...values, host: values.host });
  const rule = engineOf(values, spec?.engine);
  if (rule !== undefined) {
    if (name === undefined) throw noModel();
    return answerServing(context, {
      rule,
      model: await modelOf(context, name, { spec, values }),
      site: await siteOf(context, spec, values),
      ratePerS: values.rate,
      isJson: values.json === true,
    });
  }
  const batch = values.batch ?? spec?.batch;
  if (name === undefined || batch === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `there is no ${name === undefined ? "model" : "batch"} to plan with. Give --${name === undefined ? "model" : "batch"}, or a job file that has it.`,
    );
  const read = await modelOf(context, name, { spec, values });
  for (const [flag, value] of [
    ["--graph", values.graph],
    ["--assignment", values.assignment],
  ])
    if (value !== undefined && read.profiled === undefined)
      throw new OrbweaverError(
        "BAD_INPUT",
        `${flag ?? ""}: ${name} is no graph of profiled operators. Name a PipeDream profile or an MSR graph by --graph.`,
      );
  const measured = await measuredIn(context, values.fleet);
  const { site, corrections } = learnedHere(
    read,
    await siteOf(context, spec, { ...values, ...(measured !== undefined && { measured }) }),
    { measured, ...(spec !== undefined && { spec }) },
  );
  // Loaded on use, because solvers are large.
  const { solverFor } = await import("../../../solvers/index.ts");
  const { answer: found, model } = await planModel({
    model: read,
    site,
    batch,
    framework: values.framework ?? spec?.framework ?? "megatron",
    random: randomFrom(1, "plan"),
    solver: solverFor,
    ...fewestOf(site, spec, values),
    fixed: {
      ...(values.dp !== undefined && { replicas: values.dp }),
      ...(values.pp !== undefined && { stages: values.pp }),
      ...(values.tp !== undefined && { width: values.tp }),
    },
  });
  if (found.kind === "blocked") throw new OrbweaverError("BAD_INPUT", found.message);
  const planned = { model, site, plan: found.plan, corrections };
  if (values.assignment !== undefined) writeAssignment(context, planned, values.assignment);
  if (values.json === true) {
    context.printJson({
      ...planDocument(found.plan, site, model.shape),
      parameters: model.layers.reduce((sum, { parameters }) => sum + parameters, 0),
      partsMs: found.plan.parts,
      memory: found.plan.stages.map(({ memory, memoryGiB, cardGiB }) => ({
        ...memory,
        totalGiB: memoryGiB,
        cardGiB,
      })),
      layers: model.layers,
      ...(corrections.runs > 0 && { corrections }),
      why: reasons(planned),
      others: found.plan.others.map(({ split: { cells: _, ...split }, ...other }) => ({
        ...split,
        ...other,
      })),
      stats: found.stats,
    });
    return;
  }
  context.print(planText(planned, widthOf(context.io.stdout)));
  if (values.assignment !== undefined)
    context.print(`\nThe stage and the GPUs of each operator stand in ${values.assignment}.`);
}

function writeAssignment(
  { io: { cwd } }: CommandContext,
  { model, plan, site }: Planned,
  file: string,
): void {
  const document = operatorAssignment(model, plan, site);
  try {
    writeFileSync(resolve(cwd, file), `${JSON.stringify(document, null, 2)}\n`);
  } catch (error) {
    const why = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new OrbweaverError(
      "BAD_INPUT",
      `--assignment: ${file} cannot be written (${why}). Name a file in a folder that you may write to.`,
    );
  }
}

/** A job file may say the shape itself. */
async function modelOf(
  { io: { cwd } }: CommandContext,
  name: string,
  { spec, values }: { readonly spec: JobSpec | undefined; readonly values: Values },
): Promise<PlanModel> {
  const profiledOn = values.profiledOn ?? spec?.profiledOn ?? USUAL_PROFILED_ON;
  const isNamed = values.model !== undefined || values.graph !== undefined;
  const said = isNamed || spec === undefined ? undefined : jobModel(spec);
  const sequence = values.sequence ?? spec?.sequence;
  if (said !== undefined)
    return presetModel(said.name, trainedAt(said.shape, said.name, values.sequence));
  if (!isNamed && spec?.modelProfile !== undefined)
    return packedModel(spec.modelProfile, { name, profiledOn });
  const bindings = values.bind === undefined ? undefined : sizesOf(values.bind);
  return await readPlanModel(name, {
    cwd,
    profiledOn,
    ...(bindings !== undefined && { bindings }),
    ...(sequence !== undefined && { sequence }),
  });
}

const noModel = (): OrbweaverError =>
  new OrbweaverError(
    "BAD_INPUT",
    "there is no model to plan with. Give --model, or a job file that has it.",
  );

async function answerForHost(
  context: CommandContext,
  model: string | undefined,
  values: Values & { readonly host: string },
): Promise<void> {
  if (model === undefined) throw noModel();
  const { host, profiledOn = USUAL_PROFILED_ON, timeline, trace } = values;
  const { planInference } = await import("../../planning/inference.ts");
  await planInference(context, {
    model,
    host,
    profiledOn,
    json: values.json === true,
    ...(values.bind !== undefined && { bindings: sizesOf(values.bind) }),
    ...(timeline !== undefined && { timeline }),
    ...(trace !== undefined && { trace }),
  });
}

async function siteOf(
  context: CommandContext,
  spec: JobSpec | undefined,
  { measured, ...values }: Values & { readonly measured?: MeasuredSteps },
): Promise<PlanSite> {
  if (values.fleet !== undefined) {
    if (values.gpus === undefined && spec === undefined)
      throw new OrbweaverError(
        "BAD_INPUT",
        "there are no GPUs to plan for. Give --gpus or a job file.",
      );
    const fleet = readFleet(values.fleet, context.io.cwd);
    const granted =
      values.gpus === undefined && spec !== undefined && spec.array === undefined
        ? (await import("../../planning/job-site.ts")).jobSite(
            fleet,
            spec,
            [...(measured?.values() ?? [])].flat(),
          )
        : undefined;
    return granted ?? fleetFileSite(fleet, values.gpus, spec?.gang.gpus ?? 0);
  }
  const gpus = values.gpus ?? (spec === undefined ? undefined : `host:${spec.gang.gpus}`);
  if (gpus === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "there are no GPUs to plan for. Give --gpus host:count, a job file, or --fleet with either.",
    );
  return writtenSite(gpus, {
    hasNvlink: values.nvlink,
    ...(values.fabric !== undefined && { fabricGbs: values.fabric }),
    ...(values.wan !== undefined && { wanGbs: values.wan }),
  });
}

function readJob(file: string, cwd: string): JobSpec {
  const text = readText(resolve(cwd, file));
  if (text.kind === "missing")
    throw new OrbweaverError("BAD_INPUT", `${file} ${text.reason}. Name a job file.`);
  const path = resolve(cwd, file);
  const model = embeddedModel({ text: text.text, file, folder: dirname(path) });
  const parsed =
    Object.keys(model).length === 0
      ? parseJobYaml(text.text, { file })
      : parseJobFile(jobFileWith({ text: text.text, file }, model, undefined));
  if (parsed.kind === "parsed") return parsed.spec;
  const problems = parsed.problems.map(formatProblem);
  throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
}

function sizesOf(words: ReadonlyMap<string, string>): ReadonlyMap<string, number> {
  return new Map(
    [...words].map(([name, text]) => {
      const size = Number(text);
      if (Number.isInteger(size) && size > 0) return [name, size];
      throw new OrbweaverError(
        "BAD_INPUT",
        `--bind: ${name}=${text} is not a size. Write e.g. ${name}=8.`,
      );
    }),
  );
}

const rate =
  (flag: string) =>
  (text: string): number => {
    const gbs = Number(text);
    if (gbs > 0 && Number.isFinite(gbs)) return gbs;
    throw new OrbweaverError("BAD_INPUT", `${flag}: ${text} is no rate. Write GB/s, e.g. 12.5.`);
  };
