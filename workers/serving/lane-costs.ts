/**
 * @file Measures the overhead of lanes on this host beside their operators, so that predicted and measured times of plans agree.
 *
 * Small models run over real lanes, in turns, and medians are compared, because plans predict medians. A session alone against the same
 * session in a lane gives the cost of a request; several parts instead of one in one lane the cost of a part, and over two lanes the cost of
 * a transfer; the same with values of a mebibyte the cost of their bytes; a model of convolutions in one lane against all lanes at once
 * the interference between lanes. It takes about a second of an idle host. At most as many lanes as processors are measured, and a model is
 * split over no more. On a busy host interference cannot be measured and is assumed.
 */

import { availableParallelism } from "node:os";
import { LANE_COSTS, type LaneCosts } from "../../activities/serving-planner.ts";
import { median } from "../../lib/median.ts";
import { quantile } from "../../lib/quantile.ts";
import { onnxBytes } from "../../models/onnx/onnx-file.ts";
import { readOnnxModel, type OnnxModel } from "../../models/onnx/onnx-model.ts";
import { branchySample } from "../../models/onnx/onnx-samples.ts";
import { openOnnx, type TensorValue } from "../../models/onnx/onnx-session.ts";
import { watchOthers } from "./other-work.ts";
import { allowedProcessors } from "./own-core.ts";
import { openSplit, type SplitOptions } from "./split-model.ts";

/** Length of the chain of operators, each a part of its own where parts are measured. */
const LINKS = 8;
const SMALL = 64;
/** A mebibyte of numbers. */
const WIDE = 2 ** 18;
const WARM_UPS = 60;
const ROUNDS = 120;
const WIDE_ROUNDS = 15;
/** Time limit for each figure on a busy host, after the least number of rounds. */
const BUDGET_MS = 500;
const LEAST_ROUNDS = 5;
/** In processors: background work, and the system's rounding. */
const MOST_OTHERS = 0.3;
/** Rounds of lanes that work at the same time; the first are warm-ups. */
const BESIDE_ROUNDS = 60;
const BESIDE_WARM_UPS = 5;
/** All lanes must get their processors at once, and few rounds are undisturbed. */
const LOW = 0.25;
const IMAGE_SIDE = 16;

interface Way {
  run(): Promise<unknown>;
  close(): Promise<unknown>;
}

/** For plans over this many lanes. Rejects when this host cannot open lanes at all. */
export async function measureLaneCosts(lanes: number): Promise<LaneCosts> {
  const atOnce = Math.max(1, availableParallelism());
  const used = Math.min(lanes, atOnce);
  const small = chainModel(SMALL);
  const [alone = 0, inLane = 0, inParts = 0, across = 0] = await mediansMs(
    [
      () => session(small, SMALL),
      () => chain(small, SMALL, [0]),
      ...(used > 1
        ? [
            () => chain(small, SMALL, new Array<number>(LINKS).fill(0)),
            () => chain(small, SMALL, alternating()),
          ]
        : []),
    ],
    { warmUps: WARM_UPS, rounds: ROUNDS },
  );
  const requestMs = Math.max(0, inLane - alone);
  if (used === 1) return { ...LANE_COSTS, requestMs, atOnce };
  const cuts = LINKS - 1;
  const others = watchOthers();
  const beside = await besideFactor(used);
  // A momentary load of other processes is not interference between lanes, and a plan lasts longer.
  const isDisturbed = others() + used > atOnce + MOST_OTHERS;
  const handMs = Math.max(0, across - inParts) / cuts;
  return {
    requestMs,
    partMs: Math.max(0, inParts - inLane) / cuts,
    handMs,
    handMsPerByte: await msPerByte(handMs * cuts),
    besideFactor: isDisturbed ? LANE_COSTS.besideFactor : beside,
    atOnce,
  };
}

async function msPerByte(handsMs: number): Promise<number> {
  const wide = chainModel(WIDE);
  const [here = 0, across = 0] = await mediansMs(
    [
      () => chain(wide, WIDE, new Array<number>(LINKS).fill(0)),
      () => chain(wide, WIDE, alternating()),
    ],
    { warmUps: 3, rounds: WIDE_ROUNDS },
  );
  const bytes = (LINKS - 1) * WIDE * Float32Array.BYTES_PER_ELEMENT;
  // Never zero, because the planner's links have a speed.
  return Math.max(LANE_COSTS.handMsPerByte / 10, (across - here - handsMs) / bytes);
}

/** Each lane runs a model of its own: first one of them, then all. */
async function besideFactor(lanes: number): Promise<number> {
  const bytes = branchySample({ side: IMAGE_SIDE, blocks: 1, depth: 60, width: 16 });
  const model = read(bytes);
  const plan = { gpus: 1, parts: [{ gpu: 0, operators: [...model.operators.keys()] }] };
  const ways: Way[] = [];
  try {
    const allowed = allowedProcessors();
    for (let lane = 0; lane < lanes; lane += 1) {
      const processor = allowed[lane];
      const processors = new Map(processor === undefined ? [] : [[0, processor] as const]);
      ways.push(await split(model, { plan, feeds: image, processors }));
    }
    const [oneMs, allMs] = [new Array<number>(), new Array<number>()];
    const untilMs = performance.now() + BUDGET_MS;
    for (let round = -BESIDE_WARM_UPS; round < BESIDE_ROUNDS; round += 1) {
      if (round >= LEAST_ROUNDS && performance.now() > untilMs) break;
      const [first] = ways;
      const one = await tookMs(async () => first?.run());
      const all = await tookMs(async () => Promise.all(ways.map((way) => way.run())));
      if (round < 0) continue;
      oneMs.push(one);
      allMs.push(all);
    }
    return Math.min(lanes, Math.max(1, quantile(allMs, LOW) / quantile(oneMs, LOW)));
  } finally {
    await Promise.all(ways.map((way) => way.close()));
  }
}

/** The median time of each way, in ms; they take turns. */
async function mediansMs(
  open: readonly (() => Promise<Way>)[],
  { warmUps, rounds }: { readonly warmUps: number; readonly rounds: number },
): Promise<readonly number[]> {
  const ways: Way[] = [];
  try {
    for (const each of open) ways.push(await each());
    const taken = ways.map(() => new Array<number>());
    const untilMs = performance.now() + BUDGET_MS;
    for (let round = -warmUps; round < rounds; round += 1) {
      if (round >= LEAST_ROUNDS && performance.now() > untilMs) break;
      for (const [index, way] of ways.entries()) {
        const ms = await tookMs(() => way.run());
        if (round >= 0) taken[index]?.push(ms);
      }
    }
    return taken.map(median);
  } finally {
    await Promise.all(ways.map((way) => way.close()));
  }
}

async function tookMs(run: () => Promise<unknown>): Promise<number> {
  const fromMs = performance.now();
  await run();
  return performance.now() - fromMs;
}

function chainModel(width: number): Uint8Array {
  const shape = ["batch", width];
  return onnxBytes({
    name: "chain",
    nodes: Array.from({ length: LINKS }, (_, at) => ({
      op: "Relu",
      inputs: [`v${at}`],
      outputs: [`v${at + 1}`],
      attributes: new Map(),
    })),
    constants: [],
    inputs: [{ name: "v0", type: "float32", shape }],
    outputs: [{ name: `v${LINKS}`, type: "float32", shape }],
  });
}

const alternating = (): readonly number[] => Array.from({ length: LINKS }, (_, at) => at % 2);

const row = (width: number): ReadonlyMap<string, TensorValue> =>
  new Map([["v0", { type: "float32", shape: [1, width], data: new Float32Array(width).fill(1) }]]);

const image = (): ReadonlyMap<string, TensorValue> => {
  const shape = [1, 3, IMAGE_SIDE, IMAGE_SIDE];
  return new Map([
    ["image", { type: "float32", shape, data: new Float32Array(3 * IMAGE_SIDE ** 2).fill(1) }],
  ]);
};

async function session(bytes: Uint8Array, width: number): Promise<Way> {
  const whole = await openOnnx(bytes, { threads: 1 });
  return { run: () => whole.run(row(width)), close: () => whole.release() };
}

/** A part for each lane named; for the one of a single lane all operators together. */
function chain(bytes: Uint8Array, width: number, laneOf: readonly number[]): Promise<Way> {
  const model = read(bytes);
  const places = [...model.operators.keys()];
  const parts = laneOf.map((gpu, at) => ({
    gpu,
    operators: laneOf.length === 1 ? places : [at],
  }));
  return split(model, {
    plan: { gpus: Math.max(...laneOf) + 1, parts },
    feeds: () => row(width),
  });
}

async function split(
  model: OnnxModel,
  {
    plan,
    feeds,
    ...options
  }: SplitOptions & {
    readonly plan: Parameters<typeof openSplit>[1];
    readonly feeds: () => ReadonlyMap<string, TensorValue>;
  },
): Promise<Way> {
  const opened = await openSplit(model, plan, options);
  if (opened.kind === "refused") throw new Error(`lanes cannot be measured: ${opened.message}`);
  return { run: () => opened.split.run(feeds()), close: () => opened.split.close() };
}

function read(bytes: Uint8Array): OnnxModel {
  const found = readOnnxModel(bytes, "of the measurement");
  if (found.kind === "refused") throw new Error(found.message);
  return found.model;
}
