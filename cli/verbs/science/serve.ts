/**
 * @file `orbweaver serve`: an ONNX model over the GPUs of this host, by HTTP, until it is ended.
 *
 * The same program is what an inference job runs on its host: what the flags say here, the job's environment says there.
 */

import { Option, type Command } from "commander";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { gpuNodes } from "../../../agent/system/gpu-nodes.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { SERVED_DEVICES, SERVING_ENV } from "../../../domain/job/serving-env.ts";
import { servingPlanLine, servingPlanText } from "../../../domain/model/serving-plan.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { keyValue, wholeNumber } from "../../command/option-values.ts";
import { replicasVerb } from "./serve-replicas.ts";
import { servingPlace, type PlaceValues } from "../../serving/place.ts";

interface ServeValues extends PlaceValues {
  readonly model?: string;
  readonly plan?: string;
  readonly writePlan?: string;
  readonly bind?: ReadonlyMap<string, string>;
  readonly json?: boolean;
}

export function serveVerb(context: CommandContext): Command {
  // A subcommand has options of the same names.
  return context
    .verb("serve")
    .enablePositionalOptions()
    .summary("serve an ONNX model over the GPUs of this host")
    .description(
      "Splits an ONNX model by a plan, runs its parts in parallel, each on its GPU by onnxruntime's CUDA provider or, with --devices cpu, with one thread for each GPU, and answers requests over HTTP: POST /infer, GET /healthz, GET /metrics, and the V2 paths of the Open Inference Protocol. Requests that arrive together are batched. Ends on Ctrl-C or TERM after it has answered the queued requests. Inference jobs run this verb by themselves.",
    )
    .option("--model <file>", "the model, one .onnx file")
    .option(
      "--gpus <n>",
      "number of threads, each for one GPU (default: 1)",
      wholeNumber("--gpus", 1),
    )
    .addOption(
      new Option(
        "--devices <which>",
        "what runs the parts (default: cuda where the machine has GPUs, else cpu)",
      ).choices(SERVED_DEVICES),
    )
    .option("--plan <file>", "an existing plan (default: time the operators and search for one)")
    .option("--write-plan <file>", "make the plan, write it to this file and end")
    .option("--host <address>", "address to listen on (default: 127.0.0.1)")
    .option("--port <n>", "port to listen on, 0 for any (default: 8000)", wholeNumber("--port", 0))
    .option("--token-file <file>", "require the token in this file (Authorization: Bearer)")
    .option("--anyone", "answer everybody without a token, because a proxy in front decides")
    .option(
      "--max-batch <rows>",
      "most rows in a batch; 1 turns batching off (default: 8)",
      wholeNumber("--max-batch", 1),
    )
    .option(
      "--batch-window <ms>",
      "time that a request waits for others (default: 2)",
      wholeNumber("--batch-window", 0),
    )
    .option(
      "--queue <n>",
      "most queued requests; further ones get status 429 (default: 64)",
      wholeNumber("--queue", 1),
    )
    .option(
      "--threads <n>",
      "threads of onnxruntime in each part (default: 1)",
      wholeNumber("--threads", 1),
    )
    .addOption(
      new Option(
        "--bind <name=size>",
        "size of an open dimension for timing, e.g. sequence=128 (default: 1); repeatable",
      ).argParser(keyValue("--bind")),
    )
    .option("--json", "answer with one JSON document when the model is ready")
    .addCommand(sampleVerb(context))
    .addCommand(replicasVerb(context))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver serve sample branchy branchy.onnx", "write a small model"],
        ["orbweaver serve --model branchy.onnx --gpus 2", "serve it with two threads"],
        ["orbweaver serve --model m.onnx --gpus 2 --write-plan m.plan", "make a plan once"],
        [
          "orbweaver serve --model m.onnx --gpus 2 --plan m.plan --port 9000",
          "serve with that plan",
        ],
      ]),
    )
    .action(async (values: ServeValues) => {
      await serve(context, values);
    });
}

async function serve(context: CommandContext, values: ServeValues): Promise<void> {
  const { io } = context;
  const { env } = io;
  const sizes = new Map(
    [...(values.bind ?? [])].map(
      ([name, size]) => [name, wholeNumber(`--bind ${name}=`, 1)(size)] as const,
    ),
  );
  const place = servingPlace(values, { ...io, hasGpus: () => gpuNodes().length > 0 });
  const modelFile = values.model ?? env[SERVING_ENV.model];
  if (modelFile === undefined) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "no model is named. Write e.g. orbweaver serve --model branchy.onnx.",
    );
  }
  // Loading onnxruntime takes a while, and no other verb needs it.
  const { readModel, runService } = await import("../../../workers/serving/run-service.ts");
  const file = resolve(io.cwd, modelFile);
  if (values.writePlan !== undefined) {
    const { planServing } = await import("../../../activities/serving-planner.ts");
    const { measureLaneCosts } = await import("../../../workers/serving/lane-costs.ts");
    const model = readModel(file);
    const { devices } = place;
    const lanes = await measureLaneCosts(place.gpus);
    const planned = await planServing(model, place.gpus, { bindings: sizes, lanes, devices });
    if (planned.kind === "refused") throw new OrbweaverError("BAD_INPUT", planned.message);
    const { plan } = planned;
    writeFileSync(resolve(io.cwd, values.writePlan), servingPlanText(plan));
    if (values.json === true)
      context.printJson({ plan: values.writePlan, line: servingPlanLine(plan) });
    else context.print(`${values.writePlan}: ${servingPlanLine(plan)}`);
    return;
  }
  context.endsByItself();
  if (place.tokenNote !== undefined) context.say(place.tokenNote);
  const ended = new AbortController();
  const end = (): void => ended.abort();
  io.interrupted.addEventListener("abort", end, { once: true });
  process.once("SIGTERM", end);
  const plan = values.plan ?? env[SERVING_ENV.plan];
  await runService(
    {
      modelFile: file,
      gpus: place.gpus,
      devices: place.devices,
      listen: place.listen,
      address: place.address,
      bindings: sizes,
      ...(plan !== undefined && {
        plan: { file: resolve(io.cwd, plan), isBinding: values.plan !== undefined },
      }),
      service: place.service,
      ...(place.weights && { weights: place.weights }),
    },
    {
      say: context.say,
      onReady({ url, model, plan: made, maxBatch, isKept }) {
        const line = `${servingPlanLine(made)}${isKept ? "; weights were in the host's memory" : ""}`;
        if (values.json === true)
          context.printJson({ url, model, plan: line, gpus: made.gpus, maxBatch });
        else context.print(`${model} at ${url}, ${line}`);
        place.tell({ url, line });
      },
    },
    ended.signal,
  );
}

function sampleVerb(context: CommandContext): Command {
  return context
    .verb("sample")
    .summary("write a small sample model")
    .description(
      "Writes one of two small models with random weights: a branching convolutional network (input image, output scores), or a row of transformer blocks (input x, output y).",
    )
    .argument("<which>", "branchy or transformer")
    .argument("<file>", "file to write")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver serve sample transformer blocks.onnx", "two blocks of width 64"]]),
    )
    .action(async (which: string, file: string, values: { readonly json?: boolean }) => {
      const { branchySample, transformerSample } =
        await import("../../../models/onnx/onnx-samples.ts");
      if (which !== "branchy" && which !== "transformer") {
        throw new OrbweaverError(
          "BAD_INPUT",
          `${JSON.stringify(which)} is not a sample. Write branchy or transformer.`,
        );
      }
      const bytes = which === "branchy" ? branchySample() : transformerSample();
      writeFileSync(resolve(context.io.cwd, file), bytes);
      if (values.json === true) context.printJson({ file, bytes: bytes.length });
      else context.print(`${file}: ${which}, ${bytes.length} bytes`);
    });
}
