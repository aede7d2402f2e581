/**
 * @file The time of each part of a cut model, by running the parts one after the other in one thread, as their lanes would; and of
 * the whole model in turn with them, because the machine's speed changes.
 *
 * A part is not the sum of its operators: the runtime optimises each part by itself, lays its values out anew at its edges and
 * copies them in and out. Rounds go through all parts, so that each finds the caches as others leave them. Cost: one session a
 * part, and the budget.
 */

import { median } from "../../lib/median.ts";
import { cutOnnx, type OnnxPart } from "./onnx-cut.ts";
import { entryOf } from "./onnx-feeds.ts";
import { markedModel } from "./onnx-marks.ts";
import type { OnnxModel } from "./onnx-model.ts";
import { openOnnx, type OnnxSession, type TensorValue } from "./onnx-session.ts";

interface PartTiming {
  readonly inputs: ReadonlyMap<string, TensorValue>;
  readonly rounds: number;
  /** Rounds go on for so long at least. */
  readonly leastMs: number;
  readonly budgetMs: number;
}

type TimedParts =
  /** Medians. */
  | { readonly kind: "timed"; readonly partMs: readonly number[]; readonly wholeMs: number }
  | { readonly kind: "refused"; readonly message: string };

const WARM_UP_ROUNDS = 3;

/** `parts` are places of operators, in an order in which they can run. */
export async function partTimes(
  model: OnnxModel,
  parts: readonly (readonly number[])[],
  timing: PartTiming,
): Promise<TimedParts> {
  const cut = await cutOnnx(model, parts);
  if (cut.kind === "refused") return cut;
  const whole: OnnxPart = {
    bytes: markedModel(model, []),
    inputs: model.inputs.map(({ name }) => name),
    outputs: [],
  };
  // The whole comes last: what it makes is in the place of the same values.
  const runs = [...cut.parts, whole];
  const medians = (await timesOf(runs, timing)).map(median);
  return { kind: "timed", partMs: medians.slice(0, -1), wholeMs: medians.at(-1) ?? NaN };
}

/** By part, in ms. */
async function timesOf(
  parts: readonly OnnxPart[],
  { inputs: given, rounds, leastMs, budgetMs }: PartTiming,
): Promise<readonly (readonly number[])[]> {
  const rows = parts.map(() => new Array<number>());
  const sessions: OnnxSession[] = [];
  try {
    for (const { bytes } of parts) sessions.push(await openOnnx(bytes));
    const startMs = performance.now();
    let spentMs = 0;
    const isGoingOn = (round: number): boolean => {
      if (round <= 0) return true;
      if (spentMs > budgetMs) return false;
      return round < rounds || spentMs < leastMs;
    };
    for (let round = -WARM_UP_ROUNDS; isGoingOn(round); round += 1) {
      const values = new Map(given);
      for (const [at, { inputs }] of parts.entries()) {
        const feeds = new Map(inputs.flatMap((name) => entryOf(values, name)));
        const fromMs = performance.now();
        const outputs = await sessions[at]?.run(feeds);
        if (round >= 0) rows[at]?.push(performance.now() - fromMs);
        for (const [name, value] of outputs ?? []) values.set(name, value);
      }
      spentMs = performance.now() - startMs;
    }
    return rows;
  } finally {
    await Promise.all(sessions.map((session) => session.release()));
  }
}
