/** @file `orbweaver plan`: how a model would be split over GPUs, what each needs, how long a step takes, and why. */

import type { Command } from "commander";
import { resolve } from "node:path";
import { OrbweaverError } from "../../domain/failure.ts";
import { formatProblem } from "../../domain/file-problem.ts";
import { parseJobYaml } from "../../domain/job-file.ts";
import type { JobSpec } from "../../domain/job.ts";
import { randomFrom } from "../../lib/random.ts";
import { planDocument } from "../../scheduling/plan/plan-document.ts";
import { planTraining } from "../../scheduling/plan/plan.ts";
import { readFleet, readText } from "../fleet-files.ts";
import { widthOf } from "../io.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { keyValue, wholeNumber } from "../option-values.ts";
import { PROFILED_ON, readPlanModel } from "../planning/model-source.ts";
import { planText, reasons } from "../planning/plan-text.ts";
import { fleetFileSite, writtenSite } from "../planning/site-source.ts";

interface Values {
  readonly model?: string;
  readonly batch?: number;
  readonly gpus?: string;
  readonly fleet?: string;
  readonly dp?: number;
  readonly pp?: number;
  readonly tp?: number;
  readonly bind?: ReadonlyMap<string, string>;
  readonly profiledOn: string;
  readonly nvlink: boolean;
  readonly fabric?: number;
  readonly wan?: number;
  readonly host?: string;
  readonly timeline?: string;
  readonly trace?: string;
  readonly json?: boolean;
}

export function planVerb(kit: Kit): Command {
  return kit
    .verb("plan")
    .summary("plan how a model is split over GPUs")
    .description(
      "Chooses data, pipeline and tensor parallel degrees, the micro-batch, the layers\n" +
        "of each stage and the GPUs that run them, predicts the step and its parts, and\n" +
        "prints arguments for Megatron-LM and DeepSpeed. Models: a preset (gpt2-1.3b,\n" +
        "llama-7b, …), a PipeDream profile, an MSR graph or an .onnx file. A running job\n" +
        "with model and batch gets such a plan by itself.\n\n" +
        "With --host: which GPU of one host runs which operation of an inference model,\n" +
        "and over which bus each parameter comes. Models then: GPT2-large, GPT2-xl,\n" +
        "OpenLLaMA-3B, OpenLLaMA-7B and llama-3.1-8b, each with @<batch>x<tokens>\n" +
        "(llama-3.1-8b@1x1+2048: one token after 2,048); the same kinds of files; a table\n" +
        "of layer times; or several of these with commas between.",
    )
    .argument("[job.yaml]", "takes model, batch and GPU count from a job file")
    .option("--model <name or file>", "the model")
    .option(
      "--batch <samples>",
      "samples of one step, over all replicas",
      wholeNumber("--batch", 1),
    )
    .option("--gpus <host:count,…>", "where: [cluster/]host:count[:type]")
    .option("--fleet <fleet.yaml>", "hosts, types and links of this fleet, as if all were free")
    .option("--dp <n>", "only with so many replicas", wholeNumber("--dp", 1))
    .option("--pp <n>", "only with so many stages", wholeNumber("--pp", 1))
    .option("--tp <n>", "only with layers over so many GPUs", wholeNumber("--tp", 1))
    .option("--no-nvlink", "GPUs of a host are joined by PCIe (with --gpus alone)")
    .option("--fabric <GB/s>", "between hosts (with --gpus alone; default: 1)", rate("--fabric"))
    .option("--wan <GB/s>", "between clusters (with --gpus alone; default: 0.625)", rate("--wan"))
    .option(
      "--profiled-on <type>",
      "GPU type that a profile's times are from; with --host also that of a topology's GPUs, and cpu-thread times an ONNX file here",
      PROFILED_ON,
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
    .option("--timeline <file.svg>", "write a picture of the run (with --host)")
    .option("--trace <file.json>", "write a Chrome trace of the run (with --host)")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver plan --model gpt2-1.3b --batch 64 --gpus a:8", "eight A100 of one host"],
        ["orbweaver plan job.yaml --fleet fleet.yaml", "a job, on a fleet as if it were free"],
        [
          "orbweaver plan --model llama-70b --batch 256 --gpus eu/h1:8:H100,us/h1:8:H100",
          "two clusters",
        ],
        ["orbweaver plan --model graph.txt --batch 32 --gpus a:4:V100", "a PipeDream profile"],
        ["orbweaver plan --model model.onnx --host host.yaml", "inference over one host's GPUs"],
        [
          "orbweaver plan --model llama-3.1-8b@1x512 --host topo.txt --profiled-on A6000",
          "on a server of A6000 whose nvidia-smi topo -m is in topo.txt",
        ],
      ]),
    )
    .action(async (file: string | undefined, values: Values) => {
      await answer(kit, file === undefined ? undefined : readJob(file, kit.io.cwd), values);
    });
}

async function answer(kit: Kit, spec: JobSpec | undefined, values: Values): Promise<void> {
  const name = values.model ?? spec?.model;
  if (values.host !== undefined) return answerForHost(kit, name, { ...values, host: values.host });
  const batch = values.batch ?? spec?.batch;
  if (name === undefined || batch === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `there is no ${name === undefined ? "model" : "batch"} to plan with. Give --${name === undefined ? "model" : "batch"}, or a job file that has it.`,
    );
  const bindings = values.bind === undefined ? undefined : sizesOf(values.bind);
  const model = await readPlanModel(name, {
    cwd: kit.io.cwd,
    profiledOn: values.profiledOn,
    ...(bindings !== undefined && { bindings }),
  });
  const site = siteOf(kit, spec, values);
  // Loaded here: solvers are large.
  const { solverFor } = await import("../../solvers/index.ts");
  const found = await planTraining({
    model,
    site,
    batch,
    random: randomFrom(1, "plan"),
    solver: solverFor,
    fixed: {
      ...(values.dp !== undefined && { replicas: values.dp }),
      ...(values.pp !== undefined && { stages: values.pp }),
      ...(values.tp !== undefined && { width: values.tp }),
    },
  });
  if (found.kind === "blocked") throw new OrbweaverError("BAD_INPUT", found.message);
  const planned = { model, site, plan: found.plan };
  if (values.json === true) {
    kit.printJson({
      ...planDocument(found.plan, site, model.shape),
      parameters: model.layers.reduce((sum, { parameters }) => sum + parameters, 0),
      partsMs: found.plan.parts,
      memory: found.plan.stages.map(({ memory, memoryGiB, cardGiB }) => ({
        ...memory,
        totalGiB: memoryGiB,
        cardGiB,
      })),
      layers: model.layers,
      why: reasons(planned),
      others: found.plan.others.map(({ split: { cells: _, ...split }, ...other }) => ({
        ...split,
        ...other,
      })),
      stats: found.stats,
    });
    return;
  }
  kit.print(planText(planned, widthOf(kit.io.stdout)));
}

async function answerForHost(
  kit: Kit,
  model: string | undefined,
  values: Values & { readonly host: string },
): Promise<void> {
  if (model === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "there is no model to plan with. Give --model, or a job file that has it.",
    );
  const { host, profiledOn, timeline, trace } = values;
  const { planInference } = await import("../planning/inference.ts");
  await planInference(kit, {
    model,
    host,
    profiledOn,
    json: values.json === true,
    ...(values.bind !== undefined && { bindings: sizesOf(values.bind) }),
    ...(timeline !== undefined && { timeline }),
    ...(trace !== undefined && { trace }),
  });
}

function siteOf(
  kit: Kit,
  spec: JobSpec | undefined,
  values: Values,
): ReturnType<typeof writtenSite> {
  if (values.fleet !== undefined) {
    if (values.gpus === undefined && spec === undefined)
      throw new OrbweaverError(
        "BAD_INPUT",
        "there are no GPUs to plan for. Give --gpus or a job file.",
      );
    return fleetFileSite(readFleet(values.fleet, kit.io.cwd), values.gpus, spec?.gang.gpus ?? 0);
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
  const parsed = parseJobYaml(text.text, { file });
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
        `--bind: ${name}=${text} is no size. Write e.g. ${name}=8.`,
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
