/** @file A request of the bench: one tensor in, one out, for an endpoint and for a process of onnxruntime alone. */

import type { Random } from "../../lib/random.ts";

export interface PlainRequest {
  readonly name: string;
  readonly shape: readonly number[];
  readonly data: readonly number[];
}

export interface PlainAnswer {
  readonly data: readonly number[];
  /** Processor time of the process. */
  readonly cpuMs: number;
}

/** So far answers to one request may be apart (`answerGap`). */
export const MOST_GAP = 1e-4;

/** To a model of `transformerSample`: so many tokens of this width. */
export function drawnRequest(
  random: Random,
  { length, width }: { readonly length: number; readonly width: number },
): PlainRequest {
  const data = Array.from({ length: length * width }, () => Number(random.normal().toFixed(4)));
  return { name: "x", shape: [1, length, width], data };
}

export const inferBody = ({ name, shape, data }: PlainRequest): string =>
  JSON.stringify({ inputs: [{ name, shape, datatype: "FP32", data }] });

/** Of an answer of the Open Inference Protocol. */
export function inferredData(text: string): readonly number[] {
  // The product's own endpoint; what is of another form is no answer.
  const { outputs } = JSON.parse(text) as {
    readonly outputs?: readonly [Pick<PlainAnswer, "data">];
  };
  return outputs?.[0].data ?? [];
}

/** The largest difference, as a share of the largest number. */
export function answerGap(want: readonly number[], got: readonly number[]): number {
  if (want.length !== got.length || want.length === 0) return Infinity;
  const most = Math.max(...want.map(Math.abs));
  return Math.max(...want.map((value, at) => Math.abs(value - (got[at] ?? NaN)))) / most;
}
