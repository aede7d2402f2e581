/** @file What runs a served model where its host has no CUDA: nothing, and the user is told the remedy. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { identityOf } from "../../../activities/serving-planner.ts";
import { servingPlanText, type ServingPlan } from "../../../domain/model/serving-plan.ts";
import { cudaTrouble } from "../../../models/onnx/cuda-trouble.ts";
import { branchySample } from "../../../models/onnx/onnx-samples.ts";
import { readOnnxModel } from "../../../models/onnx/onnx-model.ts";
import { openService } from "../../../workers/serving/model-service.ts";
import { runService, type ServeRequest } from "../../../workers/serving/run-service.ts";
import { SERVICE_DEFAULTS } from "../../../workers/serving/service-options.ts";

const BYTES = branchySample({ side: 8, width: 4, depth: 1, blocks: 1 });
const folder = mkdtempSync(join(tmpdir(), "orbweaver-devices-"));
afterAll(() => rmSync(folder, { recursive: true }));
const modelFile = join(folder, "m.onnx");
writeFileSync(modelFile, BYTES);

const read = readOnnxModel(BYTES, "m");
const operators = read.kind === "refused" ? [] : [...read.model.operators.keys()];
const PLAN: ServingPlan = {
  model: identityOf({ name: "m", bytes: BYTES }),
  gpus: 1,
  devices: "cuda",
  parts: [{ gpu: 0, operators }],
};

const served = (request: Partial<ServeRequest>): Promise<void> =>
  runService(
    {
      modelFile,
      gpus: 1,
      devices: "cpu",
      listen: { host: "127.0.0.1", port: 0 },
      address: "127.0.0.1",
      bindings: new Map(),
      service: SERVICE_DEFAULTS,
      ...request,
    },
    { say: () => undefined, onReady: () => undefined },
    AbortSignal.abort(),
  );

const hasCuda = (await cudaTrouble()) === undefined;

it.skipIf(hasCuda)("a host without CUDA's libraries refuses, with the remedies", async () => {
  await expect(served({ devices: "cuda" })).rejects.toThrow(
    /m cannot run on the GPUs of this host: .*no CUDA provider.*devices: cpu for the host in fleet\.yaml/s,
  );
});

it.skipIf(hasCuda)("parts of a plan by CUDA never run on the processor instead", async () => {
  const opened = await openService({ name: "m", bytes: BYTES }, PLAN);
  expect(opened.kind === "refused" ? opened.message : "open").toMatch(
    /m cannot be served: lane 0 cannot load its parts/,
  );
});

it("a plan by CUDA that the user names is refused where processors run the parts", async () => {
  const file = join(folder, "m.plan");
  writeFileSync(file, servingPlanText(PLAN));
  await expect(served({ plan: { file, isBinding: true } })).rejects.toThrow(
    /m\.plan is a plan for cuda, but cpu runs the parts/,
  );
});
