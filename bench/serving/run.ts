/**
 * @file Times a split model and its rivals in turn, so that whatever else the machine does hits all alike.
 *
 * Threads of onnxruntime look for work for a while after a run and would take the next one's core, so only the way that is timed is open:
 * the ways come in turn, some runs each, a few times over. Answers are compared before anything is timed. What the planner expected is held against what was measured.
 */

import { median } from "../../lib/median.ts";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { planServing } from "../../activities/serving-planner.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import { servingPlanLine } from "../../domain/serving-plan.ts";
import { trialFeeds } from "../../models/onnx-feeds.ts";
import { readOnnxModel } from "../../models/onnx-model.ts";
import { branchySample } from "../../models/onnx-samples.ts";
import { openOnnx, type TensorValue } from "../../models/onnx-session.ts";
import { openSplit } from "../../workers/serving/split-model.ts";
import { atLeast, atMost, barOf, REPORTED } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";

type Tensors = ReadonlyMap<string, TensorValue>;

const WARM_UPS = 5;
const PAUSE_MS = 3;
const TURNS = 3;

interface Timed {
  readonly ms: readonly number[];
  /** Of the whole process, in all timed runs. */
  readonly cpuMs: number;
}

export async function runServing(request: BenchRequest): Promise<BenchAnswer> {
  const { name, bytes } = modelOf(request);
  const read = readOnnxModel(bytes, name);
  if (read.kind === "refused") throw new OrbweaverError("BAD_INPUT", read.message);
  const lanes = request.size("lanes");
  request.say(`planning ${name} over ${lanes} lanes`);
  const planned = await planServing({ name, bytes }, lanes, { seed: request.seed });
  if (planned.kind === "refused") throw new OrbweaverError("BAD_INPUT", planned.message);
  const { plan } = planned;
  request.say(servingPlanLine(plan));
  const opened = await openSplit(read.model, plan);
  if (opened.kind === "refused") throw new OrbweaverError("BAD_INPUT", opened.message);
  const { split } = opened;
  const one = await openOnnx(bytes, { threads: 1 });
  const feeds = (): Tensors => {
    const made = trialFeeds(read.model, { bindings: new Map(), otherwise: 1, whole: 1 });
    if (made.kind === "refused") throw new OrbweaverError("BAD_INPUT", made.message);
    return made.feeds.values;
  };
  const gap = largestGap(await one.run(feeds()), await split.run(feeds()));
  await split.close();
  await one.release();
  const session = (threads: number) => async (): Promise<Way> => {
    const whole = await openOnnx(bytes, { threads });
    return { run: () => whole.run(feeds()), close: () => whole.release() };
  };
  const overLanes = async (): Promise<Way> => {
    const again = await openSplit(read.model, plan);
    if (again.kind === "refused") throw new OrbweaverError("BAD_INPUT", again.message);
    return { run: () => again.split.run(feeds()), close: () => again.split.close() };
  };
  const [ofSplit, ofOne, ofSeveral] = await timedInTurn(
    [overLanes, session(1), session(lanes)],
    request,
  );
  const splitMs = median(ofSplit?.ms ?? []);
  const oneMs = median(ofOne?.ms ?? []);
  const severalMs = median(ofSeveral?.ms ?? []);
  const share = (ofOne?.cpuMs ?? 0) / (ofOne?.ms ?? []).reduce((sum, ms) => sum + ms, 0);
  const busy = `one thread got ${(100 * share).toFixed(0)} % of a core`;
  const expectedMs = plan.expectedMs ?? NaN;
  return {
    bars: [
      barOf({ id: "serving-gap", unit: "max|a-b|/max|b|", wish: atMost(1e-5), got: gap }),
      barOf({
        id: "serving-speed-up",
        unit: "×",
        wish: atLeast(1.2),
        got: Math.min(oneMs, severalMs) / splitMs,
        note: `against the faster of 1 and ${lanes} threads, medians of ${request.size("rounds")}; ${busy}`,
      }),
      barOf({
        id: "serving-expected",
        unit: "share off",
        wish: atMost(0.1),
        got: Math.abs(expectedMs - splitMs) / splitMs,
        note: `the planner expected ${expectedMs.toFixed(2)} ms; ${busy}`,
      }),
      barOf({ id: "serving-parts", unit: "parts", wish: REPORTED, got: plan.parts.length }),
    ],
    tables: [
      {
        title: `${name}, ${servingPlanLine(plan)}`,
        columns: ["way", "median ms", "least ms", "CPU ms"],
        rows: [
          row(`split over ${lanes} lanes`, ofSplit),
          row("one session, 1 thread", ofOne),
          row(`one session, ${lanes} threads`, ofSeveral),
        ],
      },
    ],
    details: { plan: servingPlanLine(plan), model: name },
  };
}

/** While it is open, nothing else that computes is. */
interface Way {
  readonly run: () => Promise<Tensors>;
  readonly close: () => Promise<void>;
}

function modelOf(request: BenchRequest): { readonly name: string; readonly bytes: Uint8Array } {
  const file = request.text("model");
  if (file !== undefined) return { name: basename(file), bytes: readFileSync(file) };
  const [side, blocks] = [request.size("side"), request.size("blocks")];
  const [depth, width] = [request.size("depth"), request.size("width")];
  const bytes = branchySample({ side, blocks, depth, width, seed: request.seed });
  return { name: "branchy", bytes };
}

async function timedInTurn(
  ways: readonly (() => Promise<Way>)[],
  { size, interrupted }: BenchRequest,
): Promise<readonly Timed[]> {
  const timed = ways.map(() => ({ ms: new Array<number>(), cpuMs: 0 }));
  const rounds = size("rounds");
  for (let turn = 0; turn < TURNS; turn += 1) {
    const share = Math.floor(((turn + 1) * rounds) / TURNS) - Math.floor((turn * rounds) / TURNS);
    for (const [index, open] of ways.entries()) {
      const way = await open();
      try {
        for (let at = -WARM_UPS; at < share; at += 1) {
          interrupted.throwIfAborted();
          await pause(PAUSE_MS);
          const cpuFrom = process.cpuUsage();
          const fromMs = performance.now();
          await way.run();
          const tookMs = performance.now() - fromMs;
          const { user, system } = process.cpuUsage(cpuFrom);
          const noted = timed[index];
          if (at < 0 || noted === undefined) continue;
          noted.ms.push(tookMs);
          noted.cpuMs += (user + system) / 1_000;
        }
      } finally {
        await way.close();
      }
    }
  }
  return timed;
}

function largestGap(want: Tensors, got: Tensors): number {
  let gap = 0;
  for (const [name, { data }] of want) {
    const other = got.get(name)?.data;
    let most = 0;
    let apart = 0;
    data.forEach((value: number | bigint, at: number) => {
      most = Math.max(most, Math.abs(Number(value)));
      apart = Math.max(apart, Math.abs(Number(value) - Number(other?.[at] ?? NaN)));
    });
    gap = Math.max(gap, apart / most);
  }
  return gap;
}

function row(way: string, timed: Timed | undefined): readonly string[] {
  const ms = timed?.ms ?? [];
  const perRun = (timed?.cpuMs ?? NaN) / ms.length;
  return [way, median(ms).toFixed(2), Math.min(...ms).toFixed(2), perRun.toFixed(2)];
}
