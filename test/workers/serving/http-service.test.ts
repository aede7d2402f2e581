/** @file A model over HTTP: the whole's answers, what a wrong request is told, draining, and models that take no batches. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { planServing } from "../../../activities/serving-planner.ts";
import {
  parseServingPlan,
  servingPlanText,
  type ServingPlan,
} from "../../../domain/model/serving-plan.ts";
import { onnxBytes } from "../../../models/onnx/onnx-file.ts";
import { branchySample } from "../../../models/onnx/onnx-samples.ts";
import { readOnnxModel } from "../../../models/onnx/onnx-model.ts";
import { openOnnx } from "../../../models/onnx/onnx-session.ts";
import { serveHttp, type HttpService } from "../../../workers/serving/http-service.ts";
import { openService, type ModelService } from "../../../workers/serving/model-service.ts";
import { SERVICE_DEFAULTS } from "../../../workers/serving/service-options.ts";
import { isRoot, NOBODY, statusAs } from "../../support/as-user.ts";

const SIDE = 12;
const BYTES = branchySample({ side: SIDE, width: 4, depth: 1 });
const PLACES = placesOf(BYTES);
/** Every operator a part of its own, each elsewhere than the one before: more crossings than any planner would make. */
const scattered = (gpus: number): ServingPlan["parts"] =>
  PLACES.map((place) => ({ gpu: place % gpus, operators: [place] }));

function placesOf(bytes: Uint8Array): readonly number[] {
  const read = readOnnxModel(bytes, "branchy");
  return read.kind === "read" ? read.model.operators.map((_, place) => place) : [];
}

const planOf = (parts: ServingPlan["parts"], gpus: number): ServingPlan => ({
  model: { name: "m", sha256: "0".repeat(64) },
  gpus,
  parts,
});

const image = (seed: number): Float32Array =>
  Float32Array.from({ length: 3 * SIDE ** 2 }, (_, at) => Math.sin(seed + at));
const SHAPE = [1, 3, SIDE, SIDE];

async function open(bytes: Uint8Array, plan: ServingPlan): Promise<ModelService> {
  const opened = await openService({ name: "branchy", bytes }, plan, SERVICE_DEFAULTS);
  if (opened.kind === "refused") throw new Error(opened.message);
  return opened.service;
}

let http: HttpService;
let url: string;
beforeAll(async () => {
  const service = await open(BYTES, planOf(scattered(3), 3));
  http = await serveHttp(service, { host: "127.0.0.1", port: 0 });
  url = `http://127.0.0.1:${http.port}`;
});
afterAll(async () => {
  await http.drain();
});

const infer = (body: unknown): Promise<Response> =>
  fetch(`${url}/infer`, {
    method: "POST",
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
const request = (data: Float32Array, shape: readonly number[] = SHAPE): unknown => ({
  inputs: [{ name: "image", shape, datatype: "FP32", data: [...data] }],
});

interface Answer {
  readonly outputs: readonly { readonly name: string; readonly data: readonly number[] }[];
}

it.runIf(isRoot)("another user of the machine may ask for health, not for answers", async () => {
  expect(await statusAs(NOBODY, `${url}/healthz`)).toBe(200);
  for (const path of ["/", "/metrics", "/v2/models/branchy", "/infer"])
    expect(await statusAs(NOBODY, `${url}${path}`)).toBe(401);
});

describe("a model in as many parts as operators, over three lanes", () => {
  it("answers requests that come together as the whole model answers each", async () => {
    const whole = await openOnnx(BYTES);
    const answers = await Promise.all(
      [1, 2, 3, 4, 5].map(async (seed) => (await infer(request(image(seed)))).json()),
    );
    for (const [index, answer] of answers.entries()) {
      const data = image(index + 1);
      const want = await whole.run(new Map([["image", { type: "float32", shape: SHAPE, data }]]));
      const scores = [...(want.get("scores")?.data ?? [])].map(Number);
      const got = (answer as Answer).outputs[0]?.data ?? [];
      const gap = Math.max(...scores.map((score, at) => Math.abs(score - (got[at] ?? NaN))));
      expect(gap).toBeLessThanOrEqual(1e-5 * Math.max(...scores));
    }
    await whole.release();
  });

  it("says how it is, what it takes and what it has done", async () => {
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    const about = await (await fetch(`${url}/v2/models/branchy`)).json();
    expect(about).toMatchObject({
      name: "branchy",
      inputs: [{ name: "image", datatype: "FP32", shape: [-1, 3, SIDE, SIDE] }],
      outputs: [{ name: "scores", datatype: "FP32", shape: [-1, 10] }],
      max_batch_size: 8,
    });
    expect(await (await fetch(`${url}/metrics`)).text()).toMatch(
      /^orbweaver_serving_failed_total 0$/m,
    );
  });

  it.each([
    ["no JSON", "{", 400, /the body is not JSON/],
    ["no inputs", {}, 400, /has no list "inputs"/],
    ["an input too few", { inputs: [] }, 400, /input image is missing; the model takes image/],
    [
      "an input too many",
      { inputs: [{ name: "image", shape: SHAPE, data: [...image(1)] }, { name: "mask" }] },
      400,
      /the model has no input mask/,
    ],
    ["another shape", request(image(1), [1, 3, SIDE]), 400, /image: its shape is \[1, 3, 12\]/],
    [
      "too little data",
      request(image(1).slice(1)),
      400,
      /its data has 431 numbers, but its shape needs 432/,
    ],
    [
      "another type",
      { inputs: [{ name: "image", shape: SHAPE, datatype: "INT64", data: [...image(1)] }] },
      400,
      /its datatype is "INT64", but the model takes FP32/,
    ],
    [
      "words among the numbers",
      { inputs: [{ name: "image", shape: SHAPE, data: ["x", ...image(1).slice(1)] }] },
      400,
      /"x" at 0 is not a FP32/,
    ],
  ])("is told of %s", async (_, body, status, want) => {
    const answer = await infer(body);
    expect([answer.status, ((await answer.json()) as { error: string }).error]).toEqual([
      status,
      expect.stringMatching(want),
    ]);
  });

  it("refuses other ways and places", async () => {
    expect((await fetch(`${url}/infer`)).status).toBe(405);
    expect((await fetch(`${url}/nothing`)).status).toBe(404);
  });
});

describe("a model whose rows mix", () => {
  // y = x / sum over all rows: what goes together changes what each gets.
  const mixing = onnxBytes({
    name: "mixing",
    nodes: [
      { op: "ReduceSum", inputs: ["x"], outputs: ["s"], attributes: new Map([["keepdims", 0]]) },
      { op: "Div", inputs: ["x", "s"], outputs: ["y"], attributes: new Map() },
    ],
    constants: [],
    inputs: [{ name: "x", type: "float32", shape: ["n", 3] }],
    outputs: [{ name: "y", type: "float32", shape: ["n", 3] }],
  });

  it("is found out by a trial and takes requests one by one", async () => {
    const service = await open(mixing, planOf([{ gpu: 0, operators: [0, 1] }], 1));
    expect(service).toMatchObject({
      maxBatch: 1,
      unbatched: "y of a request changes when it shares a batch",
    });
    await service.close();
  });
});

describe("a plan that does not fit", () => {
  it.each([
    ["names operators that are not there", [{ gpu: 0, operators: [99] }], /names operator 99/],
    ["leaves operators out", [{ gpu: 0, operators: [0] }], /is in no part/],
  ])("%s", async (_, parts, want) => {
    const opened = await openService({ name: "m", bytes: BYTES }, planOf(parts, 1));
    expect(opened.kind === "refused" ? opened.message : "open").toMatch(want);
  });
});

describe("a serving plan", () => {
  it("covers the model, and is the same again from its file", async () => {
    const planned = await planServing({ name: "branchy", bytes: BYTES }, 2, { timedRuns: 2 });
    if (planned.kind === "refused") throw new Error(planned.message);
    const { plan } = planned;
    expect(plan.parts.flatMap(({ operators }) => operators).sort((a, b) => a - b)).toEqual(PLACES);
    expect(parseServingPlan(servingPlanText(plan), { file: "p" })).toEqual({
      kind: "parsed",
      plan,
    });
  });

  it.each([
    ["[]", /p is no serving plan/],
    ["{", /p is no serving plan/],
    [
      servingPlanText(planOf([{ gpu: 3, operators: [0] }], 2)),
      /parts\.0\.gpu: there are 2 GPUs, from 0/,
    ],
    [
      servingPlanText(planOf([{ gpu: 0, operators: [0] }], 2)).replace('"0"', '"0-9999999"'),
      /parts\.0\.operators: more than/,
    ],
  ])("is refused as %s", (text, want) => {
    const read = parseServingPlan(text, { file: "p" });
    expect(read.kind === "refused" ? read.message : "parsed").toMatch(want);
  });
});
