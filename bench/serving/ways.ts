/**
 * @file The ways to run one model, and their times: over lanes, or in one session of onnxruntime as it can be set.
 *
 * Threads of onnxruntime look for work for a while after a run and would take the next way's core, so only the way that is timed
 * is open: the ways come in turn, some runs each, a few times over. Inputs are made before a run is timed.
 */

import { setTimeout as pause } from "node:timers/promises";
import { InferenceSession, Tensor } from "onnxruntime-node";
import { OrbweaverError } from "../../domain/failure.ts";
import type { ServingPlan } from "../../domain/serving-plan.ts";
import { trialFeeds } from "../../models/onnx-feeds.ts";
import type { OnnxModel } from "../../models/onnx-model.ts";
import type { TensorValue } from "../../models/onnx-session.ts";
import { openSplit } from "../../workers/serving/split-model.ts";

export type Tensors = ReadonlyMap<string, TensorValue>;

/** While it is open, nothing else that computes is. */
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

const TURNS = 3;

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
      const session = await InferenceSession.create(bytes, {
        interOpNumThreads: 1,
        logSeverityLevel: 4,
        ...settings,
      });
      return {
        async run(feeds) {
          const answers = await session.run(
            Object.fromEntries([...feeds].map(([name, value]) => [name, tensorOf(value)])),
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

const tensorOf = ({ type, shape, data }: TensorValue): Tensor =>
  // onnxruntime types its constructor by literal pairs of type and array; the pair is one that it gave.
  new Tensor(type as "float32", data as Float32Array, shape);

export async function timedInTurn(
  ways: readonly Way[],
  { rounds, warmUps, pauseMs, feeds, interrupted }: Timing,
): Promise<readonly Timed[]> {
  const timed = ways.map(({ name }) => ({ name, ms: new Array<number>(), cpuMs: 0 }));
  for (let turn = 0; turn < TURNS; turn += 1) {
    const share = Math.floor(((turn + 1) * rounds) / TURNS) - Math.floor((turn * rounds) / TURNS);
    for (const [index, { open }] of ways.entries()) {
      const way = await open();
      try {
        for (let at = -warmUps; at < share; at += 1) {
          interrupted.throwIfAborted();
          const given = feeds();
          if (pauseMs > 0) await pause(pauseMs);
          const cpuFrom = process.cpuUsage();
          const fromMs = performance.now();
          await way.run(given);
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
