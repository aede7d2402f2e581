/**
 * @file A surrogate model answered by onnxruntime in batches: the published ONNX graph as its users run it. Only tests use it here, to
 * hold the graph and the plain forward pass equal.
 *
 * Decisions ask `openSyncPredictor` instead: a decision is one synchronous call of few candidates, where onnxruntime's promise and
 * its cost per call would go through another thread and back. Both give the same answers within 1e-4. Candidates of
 * equally many tokens share a batch, so nothing is filled up.
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { batchOf } from "./batch.ts";
import { FEATURE_COUNT, tokensOf, type Token } from "./features.ts";
import { tablesFirst } from "./inside.ts";
import { answerFrame, type SurrogateModel, type SurrogateOptions } from "./predictor.ts";
import { batchFeeds, openSession, outputOf, vectorFeed } from "./runtime.ts";
import { inferenceGraph } from "./surrogate-graphs.ts";
import { transformerShape } from "./transformer.ts";

interface AsyncPredictor {
  readonly version: string;
  predictAsync(candidates: readonly Candidate[]): Promise<readonly number[]>;
  close(): Promise<void>;
}

/** More gains nothing, and memory grows with it. */
const MOST_IN_BATCH = 512;

export async function openSurrogate(
  model: SurrogateModel,
  domain: BandwidthDomain,
  options: SurrogateOptions = {},
): Promise<AsyncPredictor> {
  const { version = "unnamed", clamp = model.settings.clamp } = options;
  const { looksOf, gbsOf } = answerFrame(model, domain, options);
  const session = await openSession(inferenceGraph(transformerShape(FEATURE_COUNT)));
  const parameters = vectorFeed(model.parameters);
  const transformed = async (some: readonly (readonly Token[])[]): Promise<Float32Array> => {
    const feeds = batchFeeds(batchOf(some, FEATURE_COUNT), FEATURE_COUNT);
    return outputOf(await session.run({ ...feeds, parameters }), "answers");
  };
  return {
    version,
    async predictAsync(candidates) {
      const spread = candidates.filter(({ length }) => length > 1);
      const looks = spread.map(looksOf);
      const tokens = looks.map((some) => tokensOf(some, model.settings.features));
      const gbs = new Array<number>(spread.length).fill(NaN);
      for (const batch of batches(tokens)) {
        const answers = await transformed(batch.map((index) => tokens[index] ?? []));
        batch.forEach((index, place) => {
          gbs[index] = gbsOf(looks[index] ?? [], answers[place] ?? NaN).gbs;
        });
      }
      return tablesFirst(domain, () => gbs, { clamp }).predict(candidates);
    },
    close: () => session.release(),
  };
}

/** Indices of candidates with equally many tokens. */
function batches(tokens: readonly (readonly Token[])[]): readonly (readonly number[])[] {
  const byLength = new Map<number, number[][]>();
  tokens.forEach(({ length }, index) => {
    const groups = byLength.get(length) ?? [];
    const last = groups.at(-1);
    if (last !== undefined && last.length < MOST_IN_BATCH) last.push(index);
    else groups.push([index]);
    byLength.set(length, groups);
  });
  return [...byLength.values()].flat();
}
