/**
 * @file A model that runs in parts over lanes and gives the same answers as the whole model.
 *
 * It cuts the model by the plan, gives every lane its parts, and joins each pair of lanes that exchange values by a channel;
 * after that it only starts requests and collects answers. Values between parts never pass through it. A lost lane fails every
 * request in progress and every later one.
 */

import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { ServingPlan } from "../../domain/model/serving-plan.ts";
import { cutOnnx } from "../../models/onnx/onnx-cut.ts";
import { entryOf } from "../../models/onnx/onnx-feeds.ts";
import type { OnnxModel } from "../../models/onnx/onnx-model.ts";
import type { TensorValue } from "../../models/onnx/onnx-session.ts";
import { openLane, type Lane } from "./lane-port.ts";
import { ownMemory, type LanePart, type LaneReport } from "./lane-messages.ts";
import { allowedProcessors, laneProcessors, type LaneProcessors } from "./own-core.ts";

export interface SplitModel {
  /** The inputs may be gone afterwards, because their memory is transferred to the lanes. */
  run(feeds: ReadonlyMap<string, TensorValue>): Promise<ReadonlyMap<string, TensorValue>>;
  /** Settles with the reason when a lane is lost; never otherwise. */
  readonly lost: Promise<string>;
  close(): Promise<void>;
}

export type OpenedSplit =
  | {
      readonly kind: "open";
      readonly split: SplitModel;
      /** Of the model, in the plan's order. */
      readonly parts: readonly PartPorts[];
    }
  | { readonly kind: "refused"; readonly message: string };

export interface SplitOptions {
  /** Threads of onnxruntime in each lane. */
  readonly threads?: number;
  /** The host's numbers of the lanes' GPUs; from 0 when absent. */
  readonly gpuIds?: readonly number[];
  /** Nobody needs the model's bytes afterwards, so a lane that runs all of it may have them instead of a copy. */
  readonly givesBytes?: boolean;
  /** Where the loaded parts are written, by their places. */
  readonly keepAt?: (part: number) => string;
  /** Otherwise each working lane has a processor of its own, if there are enough. */
  readonly processors?: LaneProcessors;
}

/** A model as its lanes load it. */
export interface LaidModel {
  /** One for each of the plan's. */
  readonly parts: readonly LaidPart[];
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

export interface PartPorts {
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
}

type LaidPart = PartPorts & Pick<LanePart, "model" | "keepAt">;

interface Waiting {
  readonly answers: Map<string, TensorValue>;
  resolve(answers: ReadonlyMap<string, TensorValue>): void;
  reject(error: Error): void;
}

type Layout = Pick<ServingPlan, "gpus" | "parts" | "devices">;

export async function openSplit(
  model: OnnxModel,
  plan: Layout,
  { givesBytes = false, keepAt, ...options }: SplitOptions = {},
): Promise<OpenedSplit> {
  const cut = await cutOnnx(
    model,
    plan.parts.map(({ operators }) => operators),
  );
  if (cut.kind === "refused") return cut;
  const parts = cut.parts.map(({ bytes, inputs, outputs }, part) => ({
    // A copy, where the `slice` of a buffer is none.
    model: bytes === model.bytes && !givesBytes ? new Uint8Array(bytes) : bytes,
    ...{ inputs, outputs },
    ...(keepAt !== undefined && { keepAt: keepAt(part) }),
  }));
  const names = (ports: OnnxModel["inputs"]): readonly string[] => ports.map(({ name }) => name);
  return openLaid(
    { parts, inputs: names(model.inputs), outputs: names(model.outputs) },
    plan,
    options,
  );
}

export async function openLaid(
  model: LaidModel,
  { gpus, parts, devices }: Layout,
  { threads = 1, gpuIds = [], ...options }: Omit<SplitOptions, "givesBytes" | "keepAt"> = {},
): Promise<OpenedSplit> {
  const laneOf = parts.map(({ gpu }) => gpu);
  const answered = new Set(model.outputs);
  const setups = laneSetups(model.parts, { laneOf, gpus, answered });
  const working = [...new Set(laneOf)];
  const processors =
    options.processors ??
    // Threads that a lane starts would be bound with it; a lane of a GPU starts some.
    (threads > 1 || devices === "cuda"
      ? new Map()
      : laneProcessors(working, { gpuIds, allowed: allowedProcessors() }));
  const lanes: Lane[] = [];
  const waiting = new Map<number, Waiting>();
  const isReady = new Set<number>();
  let lastRequest = 0;
  let whyLost: string | undefined;
  let announceLoss: (why: string) => void = () => undefined;
  const lost = new Promise<string>((resolve) => (announceLoss = resolve));
  let announceReady: () => void = () => undefined;
  const ready = new Promise<void>((resolve) => (announceReady = resolve));

  const lose = (why: string): void => {
    if (whyLost !== undefined) return;
    whyLost = why;
    announceLoss(why);
    for (const { reject } of waiting.values()) reject(new Error(why));
    waiting.clear();
  };
  const hear = (lane: number, word: LaneReport): void => {
    switch (word.kind) {
      case "ready":
        isReady.add(lane);
        if (isReady.size === setups.length) announceReady();
        return;
      case "broken":
        lose(`lane ${lane} cannot load its parts: ${word.message}`);
        return;
      case "failed":
        for (const [other, each] of lanes.entries()) {
          if (other !== lane) each.send({ kind: "drop", request: word.request });
        }
        waiting.get(word.request)?.reject(new Error(word.message));
        waiting.delete(word.request);
        return;
      case "answer": {
        const request = waiting.get(word.request);
        if (request === undefined) return;
        request.answers.set(word.value[0], word.value[1]);
        if (request.answers.size < answered.size) return;
        waiting.delete(word.request);
        request.resolve(request.answers);
      }
    }
  };
  for (const [lane, setup] of setups.entries()) {
    const processor = processors.get(lane);
    lanes.push(
      openLane(
        {
          ...{ ...setup, lane, threads },
          ...(processor !== undefined && { processor }),
          ...(devices === "cuda" && { cudaGpu: lane }),
        },
        { onReport: (word) => hear(lane, word), onLoss: lose },
      ),
    );
  }
  const close = async (): Promise<void> => {
    lose("the model was closed");
    await Promise.all(lanes.map((lane) => lane.end()));
  };
  const trouble = await Promise.race([ready.then(() => undefined), lost]);
  if (trouble !== undefined) {
    await close();
    return { kind: "refused", message: trouble };
  }
  const wants = setups.map(({ parts: own }) => new Set(own.flatMap(({ inputs }) => inputs)));
  const straight = model.inputs.filter((name) => answered.has(name));

  const run: SplitModel["run"] = (feeds) =>
    new Promise((resolve, reject) => {
      if (whyLost !== undefined) {
        reject(new Error(whyLost));
        return;
      }
      lastRequest += 1;
      const request = lastRequest;
      // An input that is also an output passes through no lane.
      const answers = new Map(straight.flatMap((name) => entryOf(feeds, name)));
      waiting.set(request, { answers, resolve, reject });
      const takers = new Map<string, number>();
      for (const want of wants) {
        for (const name of want) takers.set(name, (takers.get(name) ?? 0) + 1);
      }
      for (const [lane, each] of lanes.entries()) {
        const values = [...(wants[lane] ?? [])].flatMap((name) => entryOf(feeds, name));
        const transfer = values.flatMap(([name, tensor]) =>
          takers.get(name) === 1 && !answers.has(name) ? ownMemory(tensor) : [],
        );
        each.send({ kind: "begin", request, values }, [...new Set(transfer)]);
      }
      if (answers.size === answered.size) {
        waiting.delete(request);
        resolve(answers);
      }
    });
  const ports = model.parts.map(({ inputs, outputs }) => ({ inputs, outputs }));
  return { kind: "open", split: { run, lost, close }, parts: ports };
}

interface Laying {
  /** By part. */
  readonly laneOf: readonly number[];
  readonly gpus: number;
  readonly answered: ReadonlySet<string>;
}

/** The parts of each lane, the readers of its values, and the channels between lanes. */
function laneSetups(
  parts: readonly LaidPart[],
  { laneOf, gpus, answered }: Laying,
): readonly { readonly parts: readonly LanePart[]; readonly peers: Map<number, MessagePort> }[] {
  const readers = new Map<string, Set<number>>();
  parts.forEach(({ inputs }, part) => {
    for (const name of inputs) {
      readers.set(name, (readers.get(name) ?? new Set()).add(laneOf[part] ?? 0));
    }
  });
  const setups = Array.from({ length: gpus }, () => ({
    parts: new Array<LanePart>(),
    peers: new Map<number, MessagePort>(),
  }));
  parts.forEach(({ outputs, ...part }, index) => {
    const lane = laneOf[index] ?? 0;
    const routed = outputs.map((name) => ({
      name,
      lanes: [...(readers.get(name) ?? [])].filter((other) => other !== lane),
      isAnswer: answered.has(name),
    }));
    setups[lane]?.parts.push({ ...part, outputs: routed });
    for (const other of routed.flatMap(({ lanes }) => lanes)) {
      if (setups[lane]?.peers.has(other) === true) continue;
      const { port1, port2 } = new MessageChannel();
      setups[lane]?.peers.set(other, port1);
      setups[other]?.peers.set(lane, port2);
    }
  });
  return setups;
}
