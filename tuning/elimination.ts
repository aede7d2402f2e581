/**
 * @file Our online tuner: arms race until none is left that could be worth more trying; then one arm, until a shift.
 *
 * First every arm once. An algorithm leaves if all its arms took `grossRatio` times as long as the best: two stalls at once are rare, one is not, so a
 * single time that is so long is no verdict. Then a forced arm stays in the race while it may be better than the fastest forced arm and than AUTO by more
 * than `worth`. AUTO is left for the fastest forced arm, at any gain, when a loss of more than `promise` is excluded by `gateSigmas` standard errors; until
 * then, and unless nothing can be gained, both are tried. An arm that was in use for long stays while it is ahead: the times that proved it are forgotten first.
 * A round takes each arm in the race and the fastest one so many times that the samples of the least tried one double, forwards and backwards in turn: trying costs little where arms are close, and ends soon where they are not. While the
 * times of a round are under way, the job runs on the arm in front, or on AUTO where that is near.
 *
 * The choice is a function of the samples alone, in order; lost samples are requested again, and surplus ones are used. Ties go to the
 * earlier arm. Source: Even-Dar, Mannor and Mansour 2006 (elimination); bandit paper §4.2. Cost: O(n) a choice.
 */

import type { Arm } from "../domain/bandwidth/collective-arm.ts";
import { inRuns, type Choice, type Sample } from "./choice.ts";
import { contrastsOf, type Contrasts } from "./contrasts.ts";
import { comparable } from "./run-effects.ts";
import { inUseOf, isLongInUse, promisingProbe, SHIFT, sinceShift, slowdownOf } from "./shift.ts";

export const ELIMINATION = Object.freeze({
  grossRatio: 1.7,
  /** A round asks for as many samples more as the arm with the fewest has, and at most for so many. */
  mostMore: 8,
  /** An arm that has so many times the samples that the least tried one will have is not asked for more. */
  plenty: 2.5,
  /** Of a schedule in a policy file. Neighbours of one arm are one run. */
  mostRuns: 32,
  /** AUTO is what all is judged by: it does not leave before it and the arm that replaces it have so many samples. */
  leastOfGate: 3,
  /** What is promised, in log time: no arm is kept that is slower than AUTO by more. So the gate is that a loss of so much is excluded, by so many errors. */
  promise: 0.01,
  gateSigmas: 3,
  /** The same when the race ends by `mostSamples`: it asks once. */
  lastGateSigmas: 2.5,
  /** A gain is one from so many standard errors on. */
  gainSigmas: 1,
  /** How far ahead of AUTO an arm must be to run while the times of a round are under way, and to stay when it was in use for long. */
  aheadSigmas: 1.25,
  /** The race ends, whoever is in it, with so many samples: a tuner keeps few more, and a host that explores reports every second. */
  mostSamples: 300,
  /** A gain in log time that is not worth more trying, and how many standard errors it must be away. */
  worth: 0.02,
  worthSigmas: 2,
});

/** What was decided last. */
export interface Published {
  readonly exploited: Arm | undefined;
}

/** Samples of arms that are not among `arms`, of another release or forged, do not count. */
export function eliminationChoice(
  samples: readonly Sample[],
  arms: readonly Arm[],
  published?: Published,
): Choice {
  if (arms.length < 2)
    return { kind: "exploit", arm: arms[0] ?? "auto", why: "nothing else runs here" };
  const epoch = sinceShift(samples).filter(({ arm }) => arms.includes(arm));
  const found = raceOf(epoch, arms, published?.exploited);
  if (found.kind === "explore") return found;
  const { arm, why } = found;
  const tried = probed(epoch, found);
  if (tried.length === 0) return { kind: "exploit", arm, why };
  return {
    kind: "explore",
    runs: inRuns(tried),
    meanwhile: arm,
    why: `${arm} became slower or was in use for long: ${tried.join(", ")} again`,
  };
}

/** What could be better than the arm in use now. */
function probed(samples: readonly Sample[], { arm, rival, known }: Decision): readonly Arm[] {
  const promising = promisingProbe(samples);
  if (promising !== undefined) return [promising];
  if (known === undefined || samples.at(-1)?.arm !== arm) return [];
  const slower = slowdownOf(samples);
  const { arms, level, error } = known;
  // An arm that is as it was is found better by `SHIFT.probeGain` only where it is nearer than the slowdown by so much.
  const reach = slower + Math.log(1 - SHIFT.probeGain);
  const near = arms.filter(
    (other) => other !== arm && level(other) - level(arm) < reach + error(other, arm),
  );
  if (slower > 0 && near.length > 0) return near;
  return rival !== undefined && isLongInUse(samples) ? [rival] : [];
}

type Decision = Extract<Choice, { kind: "exploit" }> & {
  /** What could become better than it. */
  readonly rival?: Arm;
  readonly known?: Contrasts;
};

function raceOf(
  samples: readonly Sample[],
  arms: readonly Arm[],
  exploited: Arm | undefined,
): Decision | Extract<Choice, { kind: "explore" }> {
  const known = contrastsOf(comparable(samples));
  const missing = arms.filter((arm) => known.count(arm) === 0);
  const leader = leaderOf(known, arms);
  if (missing.length > 0 || leader === undefined) {
    const why = `each arm once: ${missing.join(", ")}`;
    return { kind: "explore", runs: inRuns(missing), meanwhile: samples[0]?.arm ?? "auto", why };
  }
  const { level, error } = known;
  const forced: readonly Arm[] = withoutGross(samples, arms).filter((arm) => arm !== "auto");
  const gain = level("auto") - level(leader);
  const isOver = samples.length >= ELIMINATION.mostSamples;
  const isSure = isBeyondDoubt(known, leader, isOver);
  const mayGain = (arm: Arm, over: Arm): boolean =>
    level(over) - level(arm) + ELIMINATION.worthSigmas * error(arm, over) > ELIMINATION.worth;
  const mayBeStall = (arm: Arm): boolean =>
    known.count(arm) < 2 && level(arm) - level(leader) > Math.log(ELIMINATION.grossRatio);
  const inRace = forced.filter(
    (arm) => arm !== leader && (mayBeStall(arm) || (mayGain(arm, leader) && mayGain(arm, "auto"))),
  );
  const isAhead = gain > ELIMINATION.aheadSigmas * error(leader, "auto");
  // Its rival's samples become fewer.
  const isKept =
    (isAhead && inUseOf(samples) === leader) || (isOver && gain > 0 && exploited === leader);
  const isAutoIn = !isSure && !isKept && (inRace.length > 0 || mayGain(leader, "auto"));
  const percent = `${(100 * (1 - Math.exp(-gain))).toFixed(1)} %`;
  if (isOver || (inRace.length === 0 && !isAutoIn))
    return isSure || isKept
      ? {
          kind: "exploit",
          arm: leader,
          why: `${percent} faster than NCCL's own choice`,
          rival: "auto",
          known,
        }
      : { kind: "exploit", arm: "auto", why: whyAuto(leader, gain, percent), rival: leader, known };
  const racing = arms.filter(
    (arm) => arm === leader || inRace.includes(arm) || (arm === "auto" && isAutoIn),
  );
  return {
    kind: "explore",
    runs: inRuns(roundOf(known, racing)),
    meanwhile: isAhead ? leader : "auto",
    why: `in the race: ${racing.join(", ")}`,
  };
}

const whyAuto = (leader: Arm, gain: number, percent: string): string =>
  gain > 0
    ? `${leader} is only ${percent} faster than NCCL's own choice, or not surely`
    : "NCCL's own choice is the fastest";

/** The fastest forced arm. */
function leaderOf({ level }: Contrasts, arms: readonly Arm[]): Arm | undefined {
  const forced = arms.filter((arm) => arm !== "auto" && level(arm) < Infinity);
  return forced.length === 0
    ? undefined
    : forced.reduce((best, arm) => (level(arm) < level(best) ? arm : best));
}

function isBeyondDoubt({ count, level, error }: Contrasts, leader: Arm, isOver: boolean): boolean {
  const { leastOfGate, gainSigmas, promise, gateSigmas, lastGateSigmas } = ELIMINATION;
  const isKnown = Math.min(count(leader), count("auto")) >= leastOfGate;
  const gain = level("auto") - level(leader);
  const doubt = error(leader, "auto");
  const sigmas = isOver ? lastGateSigmas : gateSigmas;
  return isKnown && gain >= gainSigmas * doubt && gain + promise >= sigmas * doubt;
}

const algorithmOf = (arm: Arm): string => arm.split("/")[0] ?? arm;

/** Every sample of every arm of an algorithm must say so: at least two, and two stalls are rare. */
function withoutGross(samples: readonly Sample[], arms: readonly Arm[]): readonly Arm[] {
  const levels = comparable(samples);
  const least = (own: readonly Arm[]): number =>
    Math.min(...levels.filter(({ arm }) => own.includes(arm)).map(({ logMs }) => logMs));
  const limit = least(arms) + Math.log(ELIMINATION.grossRatio);
  return arms.filter((arm) => {
    const kin = arms.filter((other) => algorithmOf(other) === algorithmOf(arm));
    const tried = levels.filter((level) => kin.includes(level.arm)).length;
    return arm === "auto" || tried < 2 || least(kin) <= limit;
  });
}

/** The arm with the fewest samples sets the length, and the number of runs that a policy's row may have. */
function roundOf({ count }: Contrasts, racing: readonly Arm[]): readonly Arm[] {
  const fewest = Math.min(...racing.map(count));
  const fitting = Math.floor((ELIMINATION.mostRuns - 1) / Math.max(1, racing.length - 1));
  const more = Math.min(ELIMINATION.mostMore, fewest, fitting);
  const asked = racing.filter((arm) => count(arm) < ELIMINATION.plenty * (fewest + more));
  return Array.from({ length: more }, (_, at) =>
    at % 2 === 0 ? asked : [...asked].reverse(),
  ).flat();
}
