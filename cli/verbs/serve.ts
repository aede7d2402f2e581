/**
 * @file `orbweaver serve`: an ONNX model over the GPUs of this host, by HTTP, until it is ended.
 *
 * The same program is what an inference job runs on its host: what the flags say here, the job's environment says there.
 */

import { Option, type Command } from "commander";
import { writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { OrbweaverError } from "../../domain/failure.ts";
import { SERVING_ENV } from "../../domain/serving-env.ts";
import { servingPlanLine, servingPlanText } from "../../domain/serving-plan.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { keyValue, wholeNumber } from "../option-values.ts";
import { servingPlace, type PlaceValues } from "../serving/place.ts";

interface ServeValues extends PlaceValues {
  readonly model?: string;
  readonly plan?: string;
  readonly writePlan?: string;
  readonly bind?: ReadonlyMap<string, string>;
  readonly json?: boolean;
}

export function serveVerb(kit: Kit): Command {
  return kit
    .verb("serve")
    .summary("serve an ONNX model over the GPUs of this host")
    .description(
      "Cuts an ONNX model by a plan, runs its parts side by side, one thread for each GPU, and\n" +
        "answers requests over HTTP: POST /infer, GET /healthz, GET /metrics, and the V2 paths of\n" +
        "the Open Inference Protocol. Requests that come together run together. Ends on Ctrl-C or\n" +
        "TERM, after what stands in line was answered. Inference jobs run this by themselves.",
    )
    .option("--model <file>", "the model, one .onnx file")
    .option("--gpus <n>", "threads that stand for GPUs (default: 1)", wholeNumber("--gpus", 1))
    .option(
      "--plan <file>",
      "a plan made before (else one is made: operators timed, then searched)",
    )
    .option("--write-plan <file>", "make the plan, write it there and end")
    .option("--host <address>", "address to listen on (default: 127.0.0.1)")
    .option("--port <n>", "port to listen on, 0 for any (default: 8000)", wholeNumber("--port", 0))
    .option(
      "--max-batch <rows>",
      "rows that may run together, 1 for none (default: 8)",
      wholeNumber("--max-batch", 1),
    )
    .option(
      "--batch-window <ms>",
      "how long a request waits for others (default: 2)",
      wholeNumber("--batch-window", 0),
    )
    .option(
      "--queue <n>",
      "requests in line; more get 429 (default: 64)",
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
        "size of an open dimension for timing, e.g. sequence=128 (else 1); repeatable",
      ).argParser(keyValue("--bind")),
    )
    .option("--json", "answer with one JSON document when it is ready")
    .addCommand(sampleVerb(kit))
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver serve sample branchy branchy.onnx", "a small model to try it with"],
        ["orbweaver serve --model branchy.onnx --gpus 2", "over two threads"],
        ["orbweaver serve --model m.onnx --gpus 2 --write-plan m.plan", "plan once …"],
        ["orbweaver serve --model m.onnx --gpus 2 --plan m.plan --port 9000", "… serve often"],
      ]),
    )
    .action(async (values: ServeValues) => {
      await serve(kit, values);
    });
}

async function serve(kit: Kit, values: ServeValues): Promise<void> {
  const { io } = kit;
  const { env } = io;
  const sizes = new Map(
    [...(values.bind ?? [])].map(
      ([name, size]) => [name, wholeNumber(`--bind ${name}=`, 1)(size)] as const,
    ),
  );
  const place = servingPlace(values, env);
  const modelFile = values.model ?? env[SERVING_ENV.model];
  if (modelFile === undefined) {
    throw new OrbweaverError(
      "BAD_INPUT",
      "no model is named. Write e.g. orbweaver serve --model branchy.onnx.",
    );
  }
  // Loading onnxruntime takes a while, and no other verb needs it.
  const { readModel, runService } = await import("../../workers/serving/run-service.ts");
  const file = resolve(io.cwd, modelFile);
  if (values.writePlan !== undefined) {
    const { planServing } = await import("../../activities/serving-planner.ts");
    const { measureLaneCosts } = await import("../../workers/serving/lane-costs.ts");
    const model = readModel(file);
    const lanes = await measureLaneCosts(place.gpus);
    const planned = await planServing(model, place.gpus, { bindings: sizes, lanes });
    if (planned.kind === "refused") throw new OrbweaverError("BAD_INPUT", planned.message);
    const { plan } = planned;
    writeFileSync(resolve(io.cwd, values.writePlan), servingPlanText(plan));
    if (values.json === true)
      kit.printJson({ plan: values.writePlan, line: servingPlanLine(plan) });
    else kit.print(`${values.writePlan}: ${servingPlanLine(plan)}`);
    return;
  }
  kit.endsByItself();
  const ended = new AbortController();
  const end = (): void => ended.abort();
  io.interrupted.addEventListener("abort", end, { once: true });
  process.once("SIGTERM", end);
  const plan = values.plan ?? env[SERVING_ENV.plan];
  await runService(
    {
      modelFile: file,
      gpus: place.gpus,
      listen: place.listen,
      address: place.address,
      bindings: sizes,
      ...(plan !== undefined && {
        plan: { file: resolve(io.cwd, plan), isBinding: values.plan !== undefined },
      }),
      service: place.service,
    },
    {
      say: kit.say,
      onReady({ url, model, plan: made, maxBatch }) {
        const line = servingPlanLine(made);
        if (values.json === true)
          kit.printJson({ url, model, plan: line, gpus: made.gpus, maxBatch });
        else kit.print(`${model} at ${url}, ${line}`);
        place.tell({ url, line });
      },
    },
    ended.signal,
  );
}

function sampleVerb(kit: Kit): Command {
  return kit
    .verb("sample")
    .summary("write a small model to try serving with")
    .description(
      "Writes one of two small models with random weights: a convolutional network of branches\n" +
        "(input image, output scores), or a row of transformer blocks (input x, output y).",
    )
    .argument("<which>", "branchy or transformer")
    .argument("<file>", "where to write it")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([["orbweaver serve sample transformer blocks.onnx", "two blocks of width 64"]]),
    )
    .action(async (which: string, file: string, values: { readonly json?: boolean }) => {
      const { branchySample, transformerSample } = await import("../../models/onnx-samples.ts");
      if (which !== "branchy" && which !== "transformer") {
        throw new OrbweaverError(
          "BAD_INPUT",
          `${JSON.stringify(which)} is no sample. Write branchy or transformer.`,
        );
      }
      const bytes = which === "branchy" ? branchySample() : transformerSample();
      writeFileSync(resolve(kit.io.cwd, file), bytes);
      if (values.json === true) kit.printJson({ file, bytes: bytes.length });
      else kit.print(`${file}: ${which}, ${bytes.length} bytes`);
    });
}
