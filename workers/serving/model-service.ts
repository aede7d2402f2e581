/**
 * @file A model as a service within the process: loaded by its plan, behind a queue whose requests it batches where that is
 * sound.
 *
 * Requests may share a batch when every input and output is open in its first axis, and when a trial confirms it: two requests
 * together must give the answers of each alone (some models mix their rows, whatever their shapes are). Inputs are checked by
 * name and shape before a request is queued.
 */

import type { ServingPlan } from "../../domain/model/serving-plan.ts";
import { trialFeeds } from "../../models/onnx/onnx-feeds.ts";
import { readOnnxModel, type OnnxModel, type OnnxPort } from "../../models/onnx/onnx-model.ts";
import type { SessionPort, TensorData, TensorValue } from "../../models/onnx/onnx-session.ts";
import { createBatcher, type Batcher, type Tensors } from "./batcher.ts";
import { SERVICE_DEFAULTS, type ServiceOptions } from "./service-options.ts";
import type { KeptFacts, KeptModel, Keeping } from "./kept-weights.ts";
import { openLaid, openSplit, type SplitModel } from "./split-model.ts";
import { joinedRows, partedRows } from "./tensor-rows.ts";

export interface ModelService {
  readonly name: string;
  readonly plan: ServingPlan;
  readonly inputs: readonly SessionPort[];
  readonly outputs: readonly SessionPort[];
  /** 1 when requests are not batched. */
  readonly maxBatch: number;
  /** Why requests are not batched although batching was allowed. */
  readonly unbatched?: string;
  readonly batcher: Batcher;
  /** Settles with the reason when a lane is lost. */
  readonly lost: Promise<string>;
  /** Serves the queued requests, then unloads the model. */
  close(): Promise<void>;
}

export type OpenedService =
  | { readonly kind: "open"; readonly service: ModelService }
  | { readonly kind: "refused"; readonly message: string };

/** The bytes may be gone afterwards, because a lane may have them. With `keeping` what is loaded is written there; it is kept once it serves, and the caller drops it otherwise. */
export async function openService(
  { name, bytes }: { readonly name: string; readonly bytes: Uint8Array },
  plan: ServingPlan,
  { keeping, ...options }: ServiceOptions & { readonly keeping?: Keeping } = SERVICE_DEFAULTS,
): Promise<OpenedService> {
  const read = readOnnxModel(bytes, name);
  if (read.kind === "refused") return read;
  const { model } = read;
  const opened = await openSplit(model, plan, {
    ...laneOptions(options),
    givesBytes: true,
    ...(keeping !== undefined && { keepAt: keeping.partAt }),
  });
  if (opened.kind === "refused") return refusedSplit(name, opened);
  const { split, parts } = opened;
  const unbatched =
    options.maxBatch > 1 ? (openAxisTrouble(model) ?? (await mixingTrouble(model, split))) : "";
  const facts: KeptFacts = {
    inputs: model.inputs.map(portOf),
    outputs: model.outputs.map(portOf),
    ...(unbatched !== undefined && { unbatched }),
    parts,
  };
  keeping?.finish(facts);
  return { kind: "open", service: serviceOver(split, facts, { name, plan, options }) };
}

/** A model that the host keeps: nothing of its file is read. */
export async function openKeptService(
  kept: KeptModel,
  { name, plan, options }: Served,
): Promise<OpenedService> {
  const opened = await openLaid(
    {
      parts: kept.parts.map((part, at) => ({ ...part, model: kept.files[at] ?? "" })),
      inputs: kept.inputs.map((port) => port.name),
      outputs: kept.outputs.map((port) => port.name),
    },
    plan,
    laneOptions(options),
  );
  if (opened.kind === "refused") return refusedSplit(name, opened);
  return { kind: "open", service: serviceOver(opened.split, kept, { name, plan, options }) };
}

const laneOptions = ({ threads, gpuIds }: ServiceOptions) => ({
  threads,
  ...(gpuIds && { gpuIds }),
});

const refusedSplit = (
  name: string,
  { message }: { readonly message: string },
): Extract<OpenedService, { readonly kind: "refused" }> => ({
  kind: "refused",
  message: `${name} cannot be served: ${message}`,
});

interface Served {
  readonly name: string;
  readonly plan: ServingPlan;
  readonly options: ServiceOptions;
}

function serviceOver(
  split: SplitModel,
  { inputs, outputs, unbatched }: KeptFacts,
  { name, plan, options }: Served,
): ModelService {
  const maxBatch = unbatched === undefined ? options.maxBatch : 1;
  const batcher = createBatcher(
    { ...options, maxBatch, maxRuns: plan.gpus },
    {
      run: (feeds) => split.run(feeds),
      nowMs: () => performance.now(),
      after(delayMs, call) {
        const timer = setTimeout(call, delayMs);
        return () => clearTimeout(timer);
      },
    },
  );
  return {
    ...{ name, plan, inputs, outputs, maxBatch },
    ...(unbatched !== undefined && unbatched !== "" && { unbatched }),
    batcher,
    lost: split.lost,
    async close() {
      await batcher.close();
      await split.close();
    },
  };
}

const portOf = ({ name, type, shape }: OnnxPort): SessionPort => ({
  name,
  type: type ?? "undefined",
  shape: shape ?? [],
});

function openAxisTrouble({ inputs, outputs }: OnnxModel): string | undefined {
  const fixed = [...inputs, ...outputs].find(
    ({ shape }) => shape !== undefined && typeof shape[0] !== "string",
  );
  const trouble = fixed && `the first axis of ${fixed.name} is not open`;
  return trouble ?? (inputs.length === 0 ? "it has no input" : undefined);
}

/** Rounding differs with the size of a product; a larger difference is another answer. */
const EPSILON = 1e-4;

async function mixingTrouble(model: OnnxModel, split: SplitModel): Promise<string | undefined> {
  const made = trialFeeds(model, { bindings: new Map(), otherwise: 1, whole: 1 });
  if (made.kind === "refused") return "inputs for a trial cannot be made";
  const first = made.feeds.values;
  const second = new Map([...first].map(([name, tensor]) => [name, turned(tensor)] as const));
  const both = new Map(
    [...first].flatMap(([name, tensor]) => {
      const rows = joinedRows([tensor, second.get(name) ?? tensor]);
      return rows === undefined ? [] : [[name, rows] as const];
    }),
  );
  try {
    const together = await split.run(both);
    const alone = [await split.run(copied(first)), await split.run(copied(second))];
    for (const [name, tensor] of together) {
      if (tensor.shape[0] !== 2) return `${name} does not have a row for each request`;
      const pieces = partedRows(tensor, [1, 1]);
      for (const [index, piece] of pieces.entries()) {
        const want = alone[index]?.get(name);
        if (want === undefined || !isNear(piece.data, want.data)) {
          return `${name} of a request changes when it shares a batch`;
        }
      }
    }
    return undefined;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return `two requests together fail: ${why.replace(/\s+/g, " ").slice(0, 200)}`;
  }
}

/** Another request of the same shape: real numbers reversed, whole numbers unchanged. */
function turned(tensor: TensorValue): TensorValue {
  const { data } = tensor;
  if (data instanceof Float32Array || data instanceof Float64Array) {
    return { ...tensor, data: data.map((value) => -value) };
  }
  return { ...tensor, data: data.slice() };
}

const copied = (tensors: Tensors): Tensors =>
  new Map([...tensors].map(([name, tensor]) => [name, { ...tensor, data: tensor.data.slice() }]));

function isNear(a: TensorData, b: TensorData): boolean {
  if (a.length !== b.length) return false;
  let most = 0;
  let apart = 0;
  for (let at = 0; at < a.length; at += 1) {
    const [left, right] = [Number(a[at]), Number(b[at])];
    if (Number.isNaN(left) !== Number.isNaN(right)) return false;
    if (Number.isNaN(left)) continue;
    most = Math.max(most, Math.abs(right));
    apart = Math.max(apart, Math.abs(left - right));
  }
  return apart <= EPSILON * Math.max(most, Number.MIN_VALUE);
}
