/**
 * @file The paper's offline tuner: what was profiled before the job started, and five gates before AUTO is left (§4.1).
 *
 * An arm replaces AUTO when, outliers trimmed, (1, 2) a one-sided Mann–Whitney test says that it is faster with p < 0.01, (3) Cliff's delta is above
 * 0.33, (4) the odd and the even samples agree on it, and (5) it is 5 % faster below 64 MB, 10 % from there on. Of several, the lowest trimmed mean; ties to the
 * earlier. What was profiled elsewhere is no evidence: the caller gives only samples of the hosts at hand.
 */

import type { Arm } from "../../../domain/bandwidth/collective-arm.ts";
import { msOf, type Sample } from "../../../tuning/choice.ts";
import { isSmallerTest } from "../../../tuning/rank-tests.ts";
import { meanOf, withoutOutliers } from "../../../tuning/trimming.ts";

const GATES = Object.freeze({
  p: 0.01,
  delta: 0.33,
  gainBelowLarge: 0.05,
  gainLarge: 0.1,
  largeBytes: 64 * 1024 * 1024,
});

const GATE_NAMES = ["significance", "effect", "split halves", "improvement"] as const;
type GateName = (typeof GATE_NAMES)[number];

interface OfflineChoice {
  readonly arm: Arm;
  /** The fastest arm that was refused, and the first gate that it failed. */
  readonly refused?: { readonly arm: Arm; readonly gate: GateName };
}

export function offlineChoice(
  samples: readonly Sample[],
  arms: readonly Arm[],
  bytes: number,
): OfflineChoice {
  const order = arms
    .filter((arm) => arm !== "auto" && msOf(samples, arm).length > 0)
    .map((arm) => ({ arm, ms: meanOf(withoutOutliers(msOf(samples, arm))) }))
    .sort((a, b) => a.ms - b.ms);
  const auto = msOf(samples, "auto");
  const [fastest] = order;
  if (fastest === undefined || auto.length === 0) return { arm: "auto" };
  const gate = failedGate(samples, arms, { arm: fastest.arm, auto, bytes });
  return gate === undefined
    ? { arm: fastest.arm }
    : { arm: "auto", refused: { arm: fastest.arm, gate } };
}

function failedGate(
  samples: readonly Sample[],
  arms: readonly Arm[],
  rival: { readonly arm: Arm; readonly auto: readonly number[]; readonly bytes: number },
): GateName | undefined {
  const own = withoutOutliers(msOf(samples, rival.arm));
  const auto = withoutOutliers(rival.auto);
  const { p, delta } = isSmallerTest(own, auto);
  if (!(p < GATES.p)) return "significance";
  if (!(delta > GATES.delta)) return "effect";
  if ([0, 1].some((half) => winnerOfHalf(samples, arms, half) !== rival.arm)) return "split halves";
  const needed = rival.bytes < GATES.largeBytes ? GATES.gainBelowLarge : GATES.gainLarge;
  return 1 - meanOf(own) / meanOf(auto) < needed ? "improvement" : undefined;
}

function winnerOfHalf(samples: readonly Sample[], arms: readonly Arm[], half: number): Arm {
  const means = arms.map((arm) => {
    const own = msOf(samples, arm).filter((_, at) => at % 2 === half);
    return { arm, ms: own.length === 0 ? Infinity : meanOf(withoutOutliers(own)) };
  });
  return means.reduce((least, each) => (each.ms < least.ms ? each : least), {
    arm: "auto" as Arm,
    ms: Infinity,
  }).arm;
}
