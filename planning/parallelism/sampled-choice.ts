/**
 * @file Plays samples of the splits whose bounds are not among the shortest, and wholly those that look shortest by them.
 *
 * A bound lets all that crosses a link collide, which is most wrong where a host's GPUs share a bus, so the best split may lie behind many others. The step of
 * a few micro-batches says how wrong: a split's step is taken to be its bound × that of the sample ÷ the sample's bound. Cost: the work stated, moments × units.
 */

import { byTime, type Candidate, type Search } from "./candidates.ts";
import { played } from "./played-choice.ts";
import { expertDegree, type Split } from "./split.ts";
import { playedStep, stepTime } from "./step-time.ts";

/** Splits that are looked at, and the work for all of them: moments × units. */
const SAMPLED = 24;
const SAMPLED_WORK = 4e6;
/** Of these, so many are played wholly. */
const WHOLE = 2;

/** The best of those that have not been played, played; `candidates` are the played ones and the others. */
export function sampled(candidates: readonly Candidate[], search: Search): readonly Candidate[] {
  const { site } = search.request;
  const setting = { site, sums: search.sums };
  const least = Math.min(...candidates.filter(({ isPlayed }) => isPlayed).map(stepOf), Infinity);
  let left = SAMPLED_WORK;
  const looked: { readonly candidate: Candidate; readonly stepMs: number }[] = [];
  for (const candidate of [...candidates].sort(byTime)) {
    const { parts, totalMs } = candidate.time;
    if (candidate.isPlayed === true || parts.computeMs + parts.tensorMs >= least) continue;
    const sample = sampleOf(candidate.split);
    const { microBatches, cells, runs = 1 } = sample;
    left -= microBatches * runs * cells.length ** 2 * expertDegree(sample);
    if (left < 0 || looked.length === SAMPLED) break;
    const share = playedStep(sample, setting).totalMs / stepTime(sample, setting).totalMs;
    looked.push({ candidate, stepMs: share * totalMs });
  }
  const best = looked
    .filter(({ stepMs }) => stepMs < least)
    .sort((a, b) => a.stepMs - b.stepMs)
    .slice(0, WHOLE);
  return played(
    best.map(({ candidate }) => candidate),
    search,
  );
}

const stepOf = ({ time }: Candidate): number => time.totalMs;

/** Enough micro-batches to fill the pipeline twice, in whole groups as interleaved schedules want them. */
const sampleOf = (split: Split): Split => ({
  ...split,
  microBatches: Math.min(split.microBatches, 2 * split.stages),
});
