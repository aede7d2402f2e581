/**
 * @file onnxruntime as the models use it: one thread, float32 tensors, arrays in and arrays out.
 *
 * One thread, because a second gains little at this size and its pool spins; `run` works in the calling thread, behind a promise.
 */

import { onnxruntime } from "../onnxruntime.ts";
import type { TokenBatch } from "./batch.ts";

interface Feed {
  readonly values: Float32Array;
  readonly shape: readonly number[];
}

export interface Session {
  run(feeds: Readonly<Record<string, Feed>>): Promise<ReadonlyMap<string, Float32Array>>;
  release(): Promise<void>;
}

export async function openSession(model: Uint8Array): Promise<Session> {
  const { InferenceSession, Tensor } = await onnxruntime();
  const session = await InferenceSession.create(model, {
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
    logSeverityLevel: 3,
  });
  return {
    async run(feeds) {
      const tensors = Object.fromEntries(
        Object.entries(feeds).map(([name, { values, shape }]) => [
          name,
          new Tensor("float32", values, shape),
        ]),
      );
      const answers = await session.run(tensors);
      return new Map(
        Object.entries(answers).map(([name, tensor]) => {
          if (!(tensor.data instanceof Float32Array)) throw new Error(`${name} is not float32`);
          return [name, tensor.data] as const;
        }),
      );
    },
    release: () => session.release(),
  };
}

export const vectorFeed = (values: Float32Array): Feed => ({ values, shape: [values.length] });

export const scalarFeed = (value: number): Feed => ({ values: Float32Array.of(value), shape: [] });

export function batchFeeds(
  batch: TokenBatch,
  featureCount: number,
): Readonly<Record<string, Feed>> {
  const { size, tokens } = batch;
  return {
    features: { values: batch.features, shape: [size, tokens, featureCount] },
    log_count: { values: batch.logCount, shape: [size, tokens] },
    share: { values: batch.share, shape: [size, tokens] },
  };
}

/** An output that the graph must have. */
export function outputOf(answers: ReadonlyMap<string, Float32Array>, name: string): Float32Array {
  const values = answers.get(name);
  if (values === undefined) throw new Error(`the graph gave no ${name}`);
  return values;
}
