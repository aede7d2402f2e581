/**
 * @file The ways to run one model, and their times: over lanes, or in one session of onnxruntime as it can be set.
 *
 * A machine's pace changes within seconds, so the ways come in turn, a few runs each, many times over. Threads of onnxruntime look
 * for work for a while after a run and would take the next way's core, so each turn begins when they sleep. Inputs are made before
 * a run is timed.
 */

import { setTimeout as pause } from "node:timers/promises";
import type { InferenceSession, Tensor } from "onnxruntime-node";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { ServingPlan } from "../../domain/model/serving-plan.ts";
import { trialFeeds } from "../../models/onnx/onnx-feeds.ts";
import type { OnnxModel } from "../../models/onnx/onnx-model.ts";
import type { TensorValue } from "../../models/onnx/onnx-session.ts";
import { onnxruntime, type Onnxruntime } from "../../models/onnxruntime.ts";
import { openSplit } from "../../workers/serving/split-model.ts";

export type Tensors = ReadonlyMap<string, TensorValue>;

export interface Way {
  readonly name: string;
  open(): Promise<OpenWay>;
}

interface OpenWay {
  run(feeds: Tensors): Promise<unknown>;
  close(): Promise<unknown>;
}

export interface Timed {
  readonly name: string;
  readonly ms: readonly number[];
  /** Of the whole process, in all timed runs. */
  readonly cpuMs: number;
}

export interface Timing {
  readonly rounds: number;
  /** Of a way that was just opened: its JavaScript is compiled while it runs, and its memory gets its size. */
  readonly warmUps: number;
  /** Idle time before each run. */
  readonly pauseMs: number;
  feeds(): Tensors;
  readonly interrupted: AbortSignal;
}

/** Timed runs of a way before the next way has its turn. */
const RUNS_A_TURN = 3;
/** Of a turn, not timed: processors that slept come back, and threads find their cores. */
const TURN_WARM_UPS = 3;
/** After which threads of onnxruntime have ceased to look for work. */
const ASLEEP_MS = 20;

export function feedsOf(model: OnnxModel, bindings: ReadonlyMap<string, number>): () => Tensors {
  return () => {
    const made = trialFeeds(model, { bindings, otherwise: 1, whole: 1 });
    if (made.kind === "refused") throw new OrbweaverError("BAD_INPUT", made.message);
    return made.feeds.values;
  };
}

export const overLanes = (model: OnnxModel, plan: ServingPlan): Way => ({
  name: `split over ${plan.gpus} lanes`,
  async open() {
    const opened = await openSplit(model, plan);
    if (opened.kind === "refused") throw new OrbweaverError("BAD_INPUT", opened.message);
    const { split } = opened;
    return { run: (feeds) => split.run(feeds), close: () => split.close() };
  },
});

/** One session with one thread, and with so many as onnxruntime offers to use them. */
export function rivals(bytes: Uint8Array, threads: number): readonly [Way, ...Way[]] {
  const way = (name: string, settings: InferenceSession.SessionOptions): Way => ({
    name,
    async open() {
      const runtime = await onnxruntime();
      const session = await runtime.InferenceSession.create(bytes, {
        interOpNumThreads: 1,
        logSeverityLevel: 4,
        ...settings,
      });
      return {
        async run(feeds) {
          const answers = await session.run(
            Object.fromEntries([...feeds].map(([name, value]) => [name, tensorOf(runtime, value)])),
          );
          return Object.values(answers).map(({ data }) => data);
        },
        close: () => session.release(),
      };
    },
  });
  return [
    way("one session, 1 thread", { intraOpNumThreads: 1 }),
    way(`one session, ${threads} threads`, { intraOpNumThreads: threads }),
    way(`… that sleep at once`, {
      intraOpNumThreads: threads,
      extra: { session: { intra_op: { allow_spinning: "0" } } },
    }),
    way(`one session, ${threads} operators at once`, {
      intraOpNumThreads: 1,
      interOpNumThreads: threads,
      executionMode: "parallel",
    }),
  ];
}

const tensorOf = (runtime: Onnxruntime, { type, shape, data }: TensorValue): Tensor =>
  // onnxruntime types its constructor by literal pairs of type and array; the pair is one that it gave.
  new runtime.Tensor(type as "float32", data as Float32Array, shape);

/** All ways are open; one that has not its turn sleeps. */
export async function timedInTurn(
  ways: readonly Way[],
  { rounds, warmUps, pauseMs, feeds, interrupted }: Timing,
): Promise<readonly Timed[]> {
  const timed: (Timed & { readonly ms: number[]; cpuMs: number })[] = [];
  const open: OpenWay[] = [];
  const timeOnce = async (at: number, isCounted: boolean): Promise<void> => {
    interrupted.throwIfAborted();
    const given = feeds();
    if (pauseMs > 0) await pause(pauseMs);
    const cpuFrom = process.cpuUsage();
    const fromMs = performance.now();
    await open[at]?.run(given);
    const tookMs = performance.now() - fromMs;
    const { user, system } = process.cpuUsage(cpuFrom);
    const noted = timed[at];
    if (!isCounted || noted === undefined) return;
    noted.ms.push(tookMs);
    noted.cpuMs += (user + system) / 1_000;
  };
  try {
    for (const [at, way] of ways.entries()) {
      timed.push({ name: way.name, ms: [], cpuMs: 0 });
      open.push(await way.open());
      for (let run = 0; run < warmUps; run += 1) await timeOnce(at, false);
    }
    for (let done = 0; done < rounds; done += RUNS_A_TURN) {
      const share = Math.min(RUNS_A_TURN, rounds - done);
      for (const at of ways.keys()) {
        await pause(ASLEEP_MS);
        for (let run = -TURN_WARM_UPS; run < share; run += 1) await timeOnce(at, run >= 0);
      }
    }
  } finally {
    await Promise.all(open.map((way) => way.close()));
  }
  return timed;
}
