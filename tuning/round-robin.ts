/**
 * @file The paper's online bandit, the baseline: ten rounds of its arms in turn, trimmed means, a 5 % gate before it leaves AUTO (§4.2).
 *
 * Ties go to the earlier arm. It never reconsiders a decision. Cost: O(n log n) a choice.
 */

import type { Arm } from "../domain/bandwidth/collective-arm.ts";
import { inRuns, msOf, type Choice, type Sample } from "./choice.ts";
import { trimmedMean } from "./trimming.ts";

const PAPER_ROUNDS = 10;
export const SAFETY_GATE = 0.05;

export function roundRobinChoice(samples: readonly Sample[], arms: readonly Arm[]): Choice {
  const missing = PAPER_ROUNDS * arms.length - samples.length;
  if (missing > 0) {
    const rest = Array.from(
      { length: missing },
      (_, at) => arms[(samples.length + at) % arms.length],
    );
    const runs = inRuns(rest.flatMap((arm) => arm ?? []));
    return { kind: "explore", runs, meanwhile: "auto", why: `${String(missing)} rounds left` };
  }
  return gated(
    arms.map((arm) => ({
      arm,
      ms: trimmedMean(msOf(samples.slice(0, PAPER_ROUNDS * arms.length), arm)),
    })),
  );
}

/** The fastest, or AUTO where that is not 5 % better. */
export function gated(means: readonly { readonly arm: Arm; readonly ms: number }[]): Choice {
  const auto = means.find(({ arm }) => arm === "auto");
  const best = means.reduce((least, each) => (each.ms < least.ms ? each : least), {
    arm: "auto" as Arm,
    ms: Infinity,
  });
  const gain = auto === undefined ? 0 : 1 - best.ms / auto.ms;
  const percent = (100 * gain).toFixed(1);
  if (best.arm === "auto")
    return { kind: "exploit", arm: "auto", why: "NCCL's own choice is the fastest" };
  return gain >= SAFETY_GATE
    ? { kind: "exploit", arm: best.arm, why: `${percent} % faster than NCCL's own choice` }
    : {
        kind: "exploit",
        arm: "auto",
        why: `${best.arm} is only ${percent} % faster than NCCL's own choice`,
      };
}
