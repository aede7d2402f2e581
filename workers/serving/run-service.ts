/**
 * @file Serves a model until it is stopped: reads the file, takes or makes the plan, loads lanes, opens HTTP, and drains at the
 * end.
 *
 * A plan that came with the job is for exactly this file and this number of GPUs. A plan that does not fit (the file was
 * replaced, the gang is smaller) is ignored with a message, and a new one is made here. A plan that the user names must fit.
 */

import { readFileSync, statSync } from "node:fs";
import { basename } from "node:path";
import type { BearerRule } from "../../access/bearer.ts";
import { identityOf, planServing, wholeByCuda } from "../../activities/serving-planner.ts";
import type { ServedDevices } from "../../domain/job/serving-env.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import {
  parseServingPlan,
  servingPlanLine,
  type ServingPlan,
} from "../../domain/model/serving-plan.ts";
import { cudaTrouble } from "../../models/onnx/cuda-trouble.ts";
import { readOnnxModel } from "../../models/onnx/onnx-model.ts";
import { constantOperators } from "../../models/onnx/onnx-operator-graph.ts";
import { serveHttp } from "./http-service.ts";
import { measureLaneCosts } from "./lane-costs.ts";
import {
  beginKeeping,
  findKept,
  howItLies,
  removeKept,
  weightsKey,
  type WeightsPlace,
} from "./kept-weights.ts";
import { openKeptService, openService, type ModelService } from "./model-service.ts";
import type { ServiceOptions } from "./service-options.ts";

export interface ServeRequest {
  readonly modelFile: string;
  readonly gpus: number;
  readonly devices: ServedDevices;
  readonly plan?: { readonly file: string; readonly isBinding: boolean };
  readonly listen: BearerRule & { readonly host: string; readonly port: number };
  /** The host's name for other machines. */
  readonly address: string;
  /** Sizes of open dimensions for timing the operators. */
  readonly bindings: ReadonlyMap<string, number>;
  readonly service: ServiceOptions;
  /** Where the host keeps weights; absent: nowhere. */
  readonly weights?: WeightsPlace;
}

export interface ServeEvents {
  /** Prints a line of progress. */
  say(line: string): void;
  onReady(address: ServedAddress): void;
}

export interface ServedAddress {
  readonly url: string;
  readonly model: string;
  readonly plan: ServingPlan;
  readonly maxBatch: number;
  /** The host had kept the weights. */
  readonly isKept: boolean;
}

export interface ReadModel {
  readonly name: string;
  readonly bytes: Uint8Array;
}

/** The largest file that protobuf allows. */
const MAX_MODEL_BYTES = 2 ** 31 - 1;

/** Resolves when the service has drained after `ended`; throws when it cannot start, or when a lane is lost. */
export async function runService(
  request: ServeRequest,
  events: ServeEvents,
  ended: AbortSignal,
): Promise<void> {
  const { name } = modelFileOf(request.modelFile);
  const trouble = request.devices === "cuda" ? await cudaTrouble() : undefined;
  if (trouble !== undefined) throw new OrbweaverError("BAD_INPUT", noCudaText(name, trouble));
  const given = givenPlan(request, events);
  const { service, isKept } =
    (given !== undefined && (await keptService(request, given, events))) ||
    (await loadedService(request, given, events));
  const { plan } = service;
  if (service.unbatched !== undefined) {
    events.say(`requests are not batched: ${service.unbatched}`);
  }
  const http = await serveHttp(service, request.listen).catch(async (error: unknown) => {
    await service.close();
    const why = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError(
      "BAD_INPUT",
      `${request.listen.host}:${request.listen.port} cannot be used for listening: ${why}. Name another with --port or --host.`,
    );
  });
  const lost = service.lost.then((why) => why);
  events.onReady({
    url: `http://${request.address}:${http.port}`,
    model: name,
    plan,
    maxBatch: service.maxBatch,
    isKept,
  });
  const stopped = new Promise<undefined>((resolve) => {
    if (ended.aborted) resolve(undefined);
    ended.addEventListener("abort", () => resolve(undefined), { once: true });
  });
  const why = await Promise.race([stopped, lost]);
  if (why === undefined) events.say("draining: queued requests are answered, new ones are refused");
  await http.drain();
  if (why !== undefined) {
    throw new OrbweaverError("PROCESS_EXITED", `${name} is no longer served: ${why}`);
  }
}

interface RunningService {
  readonly service: ModelService;
  readonly isKept: boolean;
}

/** Undefined where the host keeps nothing for this plan of the file. */
async function keptService(
  request: ServeRequest,
  plan: ServingPlan,
  events: ServeEvents,
): Promise<RunningService | undefined> {
  const place = keepingPlace(request, plan, howItLies(request.modelFile));
  const kept = place && findKept(place.weights, place.key);
  if (place === undefined || kept === undefined) return undefined;
  const { name } = modelFileOf(request.modelFile);
  events.say(
    `loading ${name} ${servingPlanLine(plan)} from ${mebibytes(kept.bytes)} MiB that the host keeps in memory`,
  );
  const opened = await openKeptService(kept, { name, plan, options: request.service });
  if (opened.kind === "open") return { service: opened.service, isKept: true };
  events.say(`what the host keeps of it cannot be used: ${opened.message}`);
  removeKept(place.weights, place.key);
  return undefined;
}

async function loadedService(
  request: ServeRequest,
  given: ServingPlan | undefined,
  events: ServeEvents,
): Promise<RunningService> {
  const lies = howItLies(request.modelFile);
  const model = readModel(request.modelFile);
  const plan =
    fittingPlan(request, { given, model }, events) ?? (await madePlan(request, model, events));
  events.say(`loading ${model.name} ${servingPlanLine(plan)}`);
  const place = keepingPlace(request, plan, lies);
  const keeping = place && beginKeeping(place.weights, place.key, model.bytes.length);
  const opened = await openService(model, plan, {
    ...request.service,
    ...(keeping !== undefined && { keeping }),
  });
  if (opened.kind === "refused") {
    keeping?.drop();
    throw new OrbweaverError("BAD_INPUT", opened.message);
  }
  return { service: opened.service, isKept: false };
}

/** Undefined where weights are not kept: nothing says where, or GPUs run the parts, whose runtime keeps them in their own memory. */
function keepingPlace(
  { weights, modelFile, devices, service }: ServeRequest,
  plan: ServingPlan,
  lies: readonly number[],
): { readonly weights: WeightsPlace; readonly key: string } | undefined {
  if (weights === undefined || devices === "cuda") return undefined;
  const isBatching = service.maxBatch > 1;
  return { weights, key: weightsKey({ modelFile, lies, plan, isBatching }) };
}

const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(0);

export function readModel(file: string): ReadModel {
  const { name } = modelFileOf(file);
  return { name, bytes: readFileSync(file) };
}

function modelFileOf(file: string): Pick<ReadModel, "name"> {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found?.isFile() !== true) {
    throw new OrbweaverError(
      "NOT_FOUND",
      `there is no model file ${file}. Name one that this host can read.`,
    );
  }
  if (found.size > MAX_MODEL_BYTES) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} has ${found.size} bytes; an ONNX file has at most 2 GiB`,
    );
  }
  return { name: basename(file).replace(/\.onnx$/, "") };
}

const noCudaText = (name: string, trouble: string): string =>
  `${name} cannot run on the GPUs of this host: ${trouble} ` +
  "Install CUDA 12, cuDNN 9 and onnxruntime's CUDA libraries (in a clone: ONNXRUNTIME_NODE_INSTALL=cuda12 node node_modules/onnxruntime-node/script/install) with the agent, " +
  "or, where processors are to serve, write devices: cpu for the host in fleet.yaml (by hand: --devices cpu).";

/** The plan that came with the request, where it is one for these devices; whether it is one of the model is not looked at. */
function givenPlan(request: ServeRequest, events: ServeEvents): ServingPlan | undefined {
  if (request.plan === undefined) return undefined;
  const found = readPlan(request.plan.file, request);
  return typeof found === "string" ? unfit(found, request, events) : found;
}

function fittingPlan(
  request: ServeRequest,
  { given, model }: { readonly given: ServingPlan | undefined; readonly model: ReadModel },
  events: ServeEvents,
): ServingPlan | undefined {
  if (given === undefined || isPlanOf(given, model)) return given;
  const { file = "" } = request.plan ?? {};
  return unfit(`${file} is the plan of another model file (${given.model.name}).`, request, events);
}

/** Throws where the user has named the plan. */
function unfit(why: string, { plan }: ServeRequest, events: ServeEvents): undefined {
  if (plan?.isBinding === true) throw new OrbweaverError("BAD_INPUT", why);
  events.say(`${why} Making a new plan.`);
  return undefined;
}

function readPlan(
  file: string,
  { gpus, devices }: Pick<ServeRequest, "gpus" | "devices">,
): ServingPlan | string {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    return `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}.`;
  }
  const read = parseServingPlan(text, { file });
  if (read.kind === "refused") return read.message;
  const { plan } = read;
  if ((plan.devices ?? "cpu") !== devices) {
    return `${file} is a plan for ${plan.devices ?? "cpu"}, but ${devices} runs the parts.`;
  }
  if (plan.gpus !== gpus) return `${file} is a plan for ${plan.gpus} GPUs, but there are ${gpus}.`;
  return plan;
}

/** By the file's hash. Over one GPU a plan says nothing but that it runs all operators, and hashing a file takes as long as loading it. */
function isPlanOf({ model: planned, gpus, parts }: ServingPlan, model: ReadModel): boolean {
  const [whole] = parts;
  if (whole === undefined || parts.length > 1 || gpus > 1)
    return planned.sha256 === identityOf(model).sha256;
  const read = readOnnxModel(model.bytes, model.name);
  if (read.kind === "refused" || planned.name !== model.name) return false;
  const { operators } = read.model;
  const run = new Set(whole.operators);
  const constant = constantOperators(read.model);
  return (
    operators.every((_, at) => run.has(at) || constant.has(at)) &&
    whole.operators.every((at) => at < operators.length)
  );
}

async function madePlan(
  { gpus, bindings, devices }: ServeRequest,
  model: ReadModel,
  events: ServeEvents,
): Promise<ServingPlan> {
  if (devices === "cuda") {
    events.say(`no plan over the GPUs came with the job: the first GPU runs all of ${model.name}`);
    const read = readOnnxModel(model.bytes, model.name);
    if (read.kind === "refused") throw new OrbweaverError("BAD_INPUT", read.message);
    return { model: identityOf(model), gpus, ...wholeByCuda(read.model) };
  }
  events.say(`planning ${model.name} for ${gpus === 1 ? "1 GPU" : `${gpus} GPUs`}`);
  const lanes = await measureLaneCosts(gpus);
  const planned = await planServing(model, gpus, { bindings, lanes });
  if (planned.kind === "refused") throw new OrbweaverError("BAD_INPUT", planned.message);
  return planned.plan;
}
