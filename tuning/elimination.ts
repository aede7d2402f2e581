/**
 * @file Our online tuner: successive elimination in paired rounds, at most `budget` exploring iterations, one decision until a shift.
 *
 * Every round takes each arm that is still in the race once, forwards and backwards in turn, so that drift cancels (a job settles for some
 * twenty iterations). After the first round an algorithm leaves if all its arms are `grossRatio` slower than the best: two stalls at once
 * are rare, one is not. After each later round an arm leaves if it is behind the leader by `dropSigmas` standard errors; the standard
 * deviation is pooled over arms and shrunk to the usual one of collectives, because two samples cannot estimate it. When one arm is left, or
 * the budget is spent, the leader is taken if it is 5 % better than AUTO (the paper's gate), by `gateSigmas` standard errors, and better in
 * `gateDelta` more pairs of samples than worse; else AUTO stays. Exploring ends where the evidence does, so the rest of the budget is saved.
 * While the times of a round are under way, the job runs on the leader so far, from the first round on if that is far ahead.
 *
 * The choice is a function of the samples alone, in order; lost samples are requested again, and surplus ones are used. Ties go to the
 * earlier arm. Source: Even-Dar, Mannor and Mansour 2006 (elimination); bandit paper §4.2 (trimming, gate). Cost: O(n log n) a choice.
 */

import type { Arm } from "../domain/bandwidth/collective-arm.ts";
import { inRuns, type Choice, type Sample } from "./choice.ts";
import { SAFETY_GATE } from "./round-robin.ts";
import { isSmallerTest } from "./rank-tests.ts";
import { comparable, type Level } from "./run-effects.ts";
import { SHIFT, sinceShift, stretchOf } from "./shift.ts";
import { ascending, meanOf } from "./trimming.ts";

export const ELIMINATION = Object.freeze({
  budget: 20,
  grossRatio: 1.5,
  /** How much faster than AUTO an arm must have been in the first round to run until the second is there. */
  aheadAtOnce: 0.1,
  /**
   * What disturbs an iteration only makes it longer, by a retransmission's wait or more; an iteration that much above its arm's fastest says
   * nothing of the arm. Quartiles know that from eight samples on only: two stalls among six are within their reach.
   */
  disturbedRatio: 1.22,
  /** AUTO is what all is judged by: it does not leave before it has this many samples, whatever they say. */
  leastOfAuto: 4,
  dropSigmas: 4,
  gateSigmas: 3,
  /** Cliff's delta of the arm's samples before AUTO's: in at least four of five pairs it is the faster one. */
  gateDelta: 0.6,
  /** Standard deviation of log time that an iteration usually has, and how many samples that belief is worth. */
  usualSigma: 0.05,
  usualWorth: 6,
});

export function eliminationChoice(samples: readonly Sample[], arms: readonly Arm[]): Choice {
  const epoch = sinceShift(samples);
  const found = raceOf(epoch, arms);
  if (found.kind === "explore") return found;
  const rival = found.arm === "auto" ? found.runnerUp : "auto";
  const isLong = stretchOf(epoch) >= SHIFT.probeAfter && epoch.at(-1)?.arm === found.arm;
  if (rival === undefined || !isLong) return exploit(found);
  return {
    kind: "explore",
    runs: [{ arm: rival, count: SHIFT.probes }],
    meanwhile: found.arm,
    why: `${found.arm} was in use for long; ${rival} is tried again`,
  };
}

type Decision = Extract<Choice, { kind: "exploit" }> & { readonly runnerUp?: Arm };

const exploit = ({ arm, why }: Decision): Choice => ({ kind: "exploit", arm, why });

/** Round after round on the shortest beginning of the samples that has what the round asked for. */
function raceOf(
  samples: readonly Sample[],
  arms: readonly Arm[],
): Decision | Extract<Choice, { kind: "explore" }> {
  if (arms.length < 2)
    return { kind: "exploit", arm: arms[0] ?? "auto", why: "nothing else runs here" };
  let inRace = arms;
  const wanted = new Map(arms.map((arm) => [arm, 0]));
  for (let round = 0, spent = 0; ; round += 1) {
    for (const arm of inRace) wanted.set(arm, (wanted.get(arm) ?? 0) + 1);
    spent += inRace.length;
    const known = beginningWith(samples, wanted);
    if (Array.isArray(known)) {
      const order = round % 2 === 0 ? known : [...known].reverse();
      const meanwhile = leaderSoFar(samples, arms);
      const why = `round ${String(round + 1)}: ${inRace.join(", ")}`;
      return { kind: "explore", runs: inRuns(order), meanwhile, why };
    }
    const remaining = statusOf(comparable(samples.slice(0, known.count)), arms);
    inRace = round === 0 ? withoutGross(remaining, inRace) : withoutBeaten(remaining, inRace);
    if (inRace.length === 1 || spent + inRace.length > ELIMINATION.budget)
      return decide(remaining, inRace);
  }
}

/** How many samples it takes to have what is wanted; if they do not, the arms that are missing, each as often as it is, in the order of `wanted`. */
function beginningWith(
  samples: readonly Sample[],
  wanted: ReadonlyMap<Arm, number>,
): { readonly count: number } | Arm[] {
  const missing = new Map(wanted);
  let left = [...wanted.values()].reduce((sum, count) => sum + count, 0);
  for (const [at, { arm }] of samples.entries()) {
    const short = missing.get(arm) ?? 0;
    if (short === 0) continue;
    missing.set(arm, short - 1);
    left -= 1;
    if (left === 0) return { count: at + 1 };
  }
  return [...missing].flatMap(([arm, count]) => Array.from({ length: count }, () => arm));
}

interface Standing {
  /** Only arms with samples; in the order of the arms. */
  readonly arms: readonly Stand[];
  readonly sigma: number;
}

interface Stand {
  readonly arm: Arm;
  readonly count: number;
  readonly logMs: readonly number[];
  /** Mean of what was not disturbed: sharp, and fair between arms that jitter alike, as forced arms do. */
  readonly centre: number;
  /** Less sharp, but fair beside AUTO, which may jitter more than they. */
  readonly median: number;
}

function statusOf(levels: readonly Level[], arms: readonly Arm[]): Standing {
  let squares = ELIMINATION.usualWorth * ELIMINATION.usualSigma ** 2;
  let freedom = ELIMINATION.usualWorth;
  const found = arms.flatMap((arm): readonly Stand[] => {
    const own = levels.filter((level) => level.arm === arm).map(({ logMs }) => logMs);
    if (own.length === 0) return [];
    const limit = Math.min(...own) + Math.log(ELIMINATION.disturbedRatio);
    const median = lowMedian(own);
    // From below the median only, where no stall is.
    for (const value of own) {
      if (own.length < 3 || value >= median) continue;
      squares += (median - value) ** 2;
      freedom += 1;
    }
    const centre = meanOf(own.filter((value) => value <= limit));
    return [{ arm, count: own.length, logMs: own, centre, median }];
  });
  return { arms: found, sigma: Math.sqrt(squares / freedom) };
}

/** The lower one of the middle two: of two samples one may be a stall. */
const lowMedian = (values: readonly number[]): number =>
  ascending(values)[(values.length - 1) >> 1] ?? Infinity;

const NOWHERE: Stand = { arm: "auto", count: 0, logMs: [], centre: Infinity, median: Infinity };
const progressOf = ({ arms }: Standing, arm: Arm): Stand =>
  arms.find((each) => each.arm === arm) ?? NOWHERE;

/** The fastest forced arm, or AUTO where its median is not above that one's. */
function leaderOf(remaining: Standing): Stand {
  const forced = remaining.arms.filter(({ arm }) => arm !== "auto");
  const best = forced.reduce((least, each) => (each.centre < least.centre ? each : least), NOWHERE);
  const auto = progressOf(remaining, "auto");
  return auto.median <= best.median ? auto : best;
}

function leaderSoFar(samples: readonly Sample[], arms: readonly Arm[]): Arm {
  const remaining = statusOf(comparable(samples), arms);
  const counts = remaining.arms.map(({ count }) => count);
  if (counts.length > 1 && counts.every((count) => count >= 2)) return decide(remaining, arms).arm;
  // Before that only an arm that is far ahead, for as long as the answer takes: nothing is kept on one sample.
  const leader = leaderOf(remaining);
  const auto = progressOf(remaining, "auto");
  const isFarAhead = auto.median - leader.median >= Math.log(1 + ELIMINATION.aheadAtOnce);
  return isFarAhead && counts.length === arms.length ? leader.arm : "auto";
}

const algorithmOf = (arm: Arm): string => arm.split("/")[0] ?? arm;

function withoutGross(remaining: Standing, inRace: readonly Arm[]): readonly Arm[] {
  const best = Math.min(...remaining.arms.map(({ centre }) => centre));
  const isSlow = (arm: Arm): boolean =>
    progressOf(remaining, arm).centre > best + Math.log(ELIMINATION.grossRatio);
  return inRace.filter((arm) => {
    const kin = inRace.filter((other) => algorithmOf(other) === algorithmOf(arm));
    return arm === "auto" || kin.length < 2 || !kin.every(isSlow);
  });
}

function withoutBeaten(remaining: Standing, inRace: readonly Arm[]): readonly Arm[] {
  const leader = leaderOf(remaining);
  return inRace.filter((arm) => {
    const own = progressOf(remaining, arm);
    const isTrialOver =
      arm !== "auto" || (own.count >= ELIMINATION.leastOfAuto && isMostlyFaster(leader, own));
    const isBeaten = sigmasBehind(remaining, own, leader) > ELIMINATION.dropSigmas;
    return arm === leader.arm || !isTrialOver || !isBeaten;
  });
}

const isMostlyFaster = (own: Stand, other: Stand): boolean =>
  isSmallerTest(own.logMs, other.logMs).delta >= ELIMINATION.gateDelta;

/** A median's error is that much larger than a mean's. */
const MEDIAN_ERROR = Math.sqrt(Math.PI / 2);

function sigmasBehind({ sigma }: Standing, own: Stand, leader: Stand): number {
  const error = sigma * Math.sqrt(1 / own.count + 1 / leader.count);
  const isWithAuto = own.arm === "auto" || leader.arm === "auto";
  return isWithAuto
    ? (own.median - leader.median) / (error * MEDIAN_ERROR)
    : (own.centre - leader.centre) / error;
}

/** AUTO that has left the race was beaten by more than the gate asks; else the gate is asked now. */
function decide(remaining: Standing, inRace: readonly Arm[]): Decision {
  const leader = leaderOf(remaining);
  const auto = progressOf(remaining, "auto");
  if (leader.arm === "auto") {
    const [runnerUp] = remaining.arms
      .filter(({ arm }) => arm !== "auto")
      .sort((a, b) => a.centre - b.centre);
    const why = "NCCL's own choice is the fastest";
    return { kind: "exploit", arm: "auto", why, ...(runnerUp && { runnerUp: runnerUp.arm }) };
  }
  const gain = 1 - Math.exp(leader.median - auto.median);
  const percent = `${(100 * gain).toFixed(1)} %`;
  const isSure =
    !inRace.includes("auto") ||
    (sigmasBehind(remaining, auto, leader) >= ELIMINATION.gateSigmas &&
      isMostlyFaster(leader, auto));
  if (gain >= SAFETY_GATE && isSure)
    return { kind: "exploit", arm: leader.arm, why: `${percent} faster than NCCL's own choice` };
  const why = `${leader.arm} is only ${percent} faster than NCCL's own choice, or not surely`;
  return { kind: "exploit", arm: "auto", why, runnerUp: leader.arm };
}
