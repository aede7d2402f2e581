/**
 * @file The rivals, each at its best reading: the paper's bandit, its offline tuner, UCB1, Thompson, epsilon-greedy with and without agreement.
 *
 * Ours stands there twice: by the times that it is given, and as the live tuner has it, by the times of collectives with whole steps as control.
 * All have the paper's four arms unless they are given others, and learn of an iteration when its time arrives, `lag` iterations later. UCB1 and Thompson learn from log time, stalls
 * clipped, with the standard deviation of what they have seen (pooled over arms, shrunk to that of collectives as ours is; UCB1's own assumes
 * rewards from 0 to 1). Without agreement each rank draws for itself and learns from what all of them wait for.
 */

import { randomFrom, type Random } from "../../lib/random.ts";
import type { Sample } from "../../tuning/choice.ts";
import { eliminationChoice } from "../../tuning/elimination.ts";
import { offlineChoice } from "../rivals/tuning/offline-tuner.ts";
import { roundRobinChoice } from "../../tuning/round-robin.ts";
import { sinceShift } from "../../tuning/shift.ts";
import { timedChoice } from "../../tuning/timed-choice.ts";
import { mismatchedMs, type Draws } from "../../simulator/collectives/draws.ts";
import {
  EMULATED_ARMS,
  PAPER_CHOICES,
  type EmulatedArm,
} from "../../simulator/collectives/emulated-arms.ts";
import { playChooser, playFixed, playLearner, type Learner, type Played } from "./play.ts";

export interface Setting {
  readonly draws: Draws;
  /** Of the same hosts, from before the job. */
  readonly profile: Draws;
  readonly bytes: number;
  readonly best: EmulatedArm;
  readonly seed: number;
  readonly lag: number;
  /** For every learner alike. Absent: the paper's four for the rivals, all that are emulated for ours. */
  readonly arms?: readonly EmulatedArm[];
}

export type Player = (setting: Setting) => Played;

/** The standard deviation of log time that is believed before anything was seen, worth so many samples, and where stalls are cut. */
const USUAL_SIGMA = 0.05;
const USUAL_WORTH = 6;
const CLIP_SIGMAS = 5;
const EPSILON = 0.1;
/** The best arm of three of the paper's four scenarios. */
const LIKELIEST: EmulatedArm = "tree/simple";
const RANKS = 8;

export const PLAYERS = {
  ours: ({ draws, lag, arms = EMULATED_ARMS }) =>
    playChooser(draws, { chooser: eliminationChoice, since: sinceShift, arms, lag }),
  "ours, steps control": ({ draws, seed, lag, arms = EMULATED_ARMS }) =>
    playChooser(draws, {
      ...{ arms, lag, stepMs: stepsAround(draws, randomFrom(seed, "steps")) },
      chooser: (samples, of, published) => timedChoice(samples, of, published).choice,
      since: (samples) => samples.slice(timedChoice(samples, arms).stale),
    }),
  "paper's bandit": ({ draws, lag, arms = PAPER_CHOICES }) =>
    playChooser(draws, { chooser: roundRobinChoice, arms, lag }),
  "offline tuner": ({ draws, profile, bytes }) => {
    const choice = offlineChoice(profiled(profile), EMULATED_ARMS, bytes).arm;
    return playFixed(draws, EMULATED_ARMS.find((arm) => arm === choice) ?? "auto");
  },
  UCB1: ({ draws, lag, arms }) => playLearner(draws, ucb1(arms), lag),
  Thompson: ({ draws, seed, lag, arms }) =>
    playLearner(draws, thompson(randomFrom(seed, "thompson"), arms), lag),
  "ε-greedy, agreed": ({ draws, seed, lag, arms }) =>
    playLearner(draws, greedy(randomFrom(seed, "epsilon"), arms), lag),
  "ε-greedy, each rank alone": ({ draws, seed }) => playAlone(draws, seed),
  AUTO: ({ draws }) => playFixed(draws, "auto"),
  oracle: ({ draws, best }) => playFixed(draws, best),
  "told after a round": ({ draws, best, lag, arms = PAPER_CHOICES }) =>
    playLearner(draws, toldAfter(arms, lag, best)),
  "told by a first time": ({ draws, best, lag }) =>
    playLearner(draws, toldAfter(["auto"], lag, best)),
  "told names": ({ draws, best, lag }) => playLearner(draws, toldAfter([LIKELIEST], lag, best)),
} as const satisfies Readonly<Record<string, Player>>;
export type PlayerName = keyof typeof PLAYERS;

/** Those that learn while a job runs, as the live product and its rivals do. */
export const ONLINE = [
  "ours",
  "ours, steps control",
  "paper's bandit",
  "Thompson",
  "UCB1",
] as const satisfies readonly PlayerName[];

/** Of a job whose collectives are this part of its steps under AUTO; the rest of a step scatters by so much of it. */
const COLLECTIVE_PART = 0.3;
const STEP_SIGMA = 0.03;

function stepsAround(
  draws: Draws,
  random: Random,
): (collectiveMs: number, iteration: number) => number {
  const restMs = draws.medianMs("auto", 0) * (1 / COLLECTIVE_PART - 1);
  const scatter = Array.from({ length: draws.iterations }, () =>
    Math.exp(STEP_SIGMA * random.normal()),
  );
  return (collectiveMs, iteration) => collectiveMs + restMs * (scatter[iteration] ?? 1);
}

/** What the offline tuner measured: every arm in each of the 50 iterations after 10. */
export const profiled = (profile: Draws): readonly Sample[] =>
  EMULATED_ARMS.flatMap((arm) =>
    Array.from({ length: profile.iterations - 10 }, (_, at) => ({
      arm,
      ms: profile.ms(arm, at + 10),
    })),
  );

/**
 * Bounds for tuners that names of arms tell nothing: each of `arms` once, AUTO (or the only one) until these times have arrived, and then the truth. With AUTO alone no
 * tuner is better on average where the forced arms together take longer than AUTO: before its first time it can only guess. One that holds the right
 * prior over the paper's four scenarios starts with the arm that is the best in three of them, and the first time, 61 to 750 ms, tells it which one it is in.
 */
function toldAfter(arms: readonly EmulatedArm[], lag: number, best: EmulatedArm): Learner {
  const [first = "auto"] = arms;
  const meanwhile = arms.length === 1 ? first : "auto";
  let at = 0;
  return {
    next: () => {
      const arm = arms[at] ?? (at < arms.length + lag ? meanwhile : best);
      at += 1;
      return { arm, isExploring: at <= arms.length };
    },
    learn: () => undefined,
  };
}

interface Book {
  readonly arms: readonly EmulatedArm[];
  readonly count: number[];
  readonly sum: number[];
  /** Iterations that were started under each arm, whether or not their times have arrived. */
  readonly asked: number[];
  total: number;
  /** Squared distances from the means of the arms. */
  squares: number;
}

const emptyBook = (arms: readonly EmulatedArm[]): Book => ({
  arms,
  count: arms.map(() => 0),
  sum: arms.map(() => 0),
  asked: arms.map(() => 0),
  total: 0,
  squares: 0,
});

/** Of log time, as far as it is known. */
const sigmaIn = ({ squares, total, count }: Book): number => {
  const freedom = Math.max(0, total - count.filter((value) => value > 0).length);
  return Math.sqrt((squares + USUAL_WORTH * USUAL_SIGMA ** 2) / (freedom + USUAL_WORTH));
};

const meanIn = ({ sum, count }: Book, at: number): number => (sum[at] ?? 0) / (count[at] ?? 1);

function noteIn(book: Book, arm: EmulatedArm, ms: number): void {
  const at = book.arms.indexOf(arm);
  const isFirst = (book.count[at] ?? 0) === 0;
  const before = isFirst ? Infinity : meanIn(book, at);
  const logMs = Math.min(Math.log(ms), before + CLIP_SIGMAS * sigmaIn(book));
  book.sum[at] = (book.sum[at] ?? 0) + logMs;
  book.count[at] = (book.count[at] ?? 0) + 1;
  book.total += 1;
  if (!isFirst) book.squares += (logMs - before) * (logMs - meanIn(book, at));
}

/** While some arm's first time is still to arrive, all arms in turn. */
const untried = ({ count, asked }: Book): number =>
  count.every((value) => value > 0) ? -1 : asked.indexOf(Math.min(...asked));

function leastBy({ arms }: Pick<Book, "arms">, score: (at: number) => number): number {
  return arms.reduce((best, _, at) => (score(at) < score(best) ? at : best), 0);
}

/** `last` of what it played is the arm with the lowest mean, which the gate of no rival checks. */
function learnerBy(arms: readonly EmulatedArm[], choose: (book: Book) => number): Learner {
  const book = emptyBook(arms);
  return {
    next: () => {
      const fresh = untried(book);
      const at = fresh >= 0 ? fresh : choose(book);
      const isExploring = fresh >= 0 || at !== leastBy(book, (each) => meanIn(book, each));
      book.asked[at] = (book.asked[at] ?? 0) + 1;
      return { arm: arms[at] ?? "auto", isExploring };
    },
    learn: (arm, ms) => {
      noteIn(book, arm, ms);
    },
  };
}

const ucb1 = (arms = PAPER_CHOICES): Learner =>
  learnerBy(arms, (book) =>
    leastBy(
      book,
      (at) =>
        meanIn(book, at) -
        sigmaIn(book) * Math.sqrt((2 * Math.log(book.total)) / (book.count[at] ?? 1)),
    ),
  );

const thompson = (random: Random, arms = PAPER_CHOICES): Learner =>
  learnerBy(arms, (book) => {
    const drawn = arms.map(
      (_, at) =>
        meanIn(book, at) + (sigmaIn(book) / Math.sqrt(book.count[at] ?? 1)) * random.normal(),
    );
    return leastBy(book, (at) => drawn[at] ?? Infinity);
  });

const greedy = (random: Random, arms = PAPER_CHOICES): Learner =>
  learnerBy(arms, (book) =>
    random.unit() < EPSILON ? random.below(arms.length) : leastBy(book, (at) => meanIn(book, at)),
  );

/** Every rank draws for itself, and books what all waited for under what it chose. */
function playAlone(draws: Draws, seed: number): Played {
  const ranks = Array.from({ length: RANKS }, (_, rank) => ({
    random: randomFrom(seed, `rank ${String(rank)}`),
    count: PAPER_CHOICES.map(() => 0),
    sum: PAPER_CHOICES.map(() => 0),
  }));
  const ms: number[] = [];
  const arms: EmulatedArm[] = [];
  for (let at = 0; at < draws.iterations; at += 1) {
    const chosen = ranks.map(({ random, count, sum }) => {
      if (random.unit() < EPSILON) return random.below(PAPER_CHOICES.length);
      const fresh = count.findIndex((value) => value === 0);
      const mean = (arm: number): number => (sum[arm] ?? 0) / (count[arm] ?? 1);
      return fresh >= 0 ? fresh : leastBy({ arms: PAPER_CHOICES }, mean);
    });
    const armAt = (arm: number): EmulatedArm => PAPER_CHOICES[arm] ?? "auto";
    const slowest = Math.max(...chosen.map((arm) => draws.ms(armAt(arm), at)));
    const waited = new Set(chosen).size > 1 ? mismatchedMs(slowest) : slowest;
    for (const [rank, { count, sum }] of ranks.entries()) {
      const arm = chosen[rank] ?? 0;
      count[arm] = (count[arm] ?? 0) + 1;
      sum[arm] = (sum[arm] ?? 0) + waited;
    }
    ms.push(waited);
    arms.push(PAPER_CHOICES[chosen[0] ?? 0] ?? "auto");
  }
  return { ms, arms, exploring: 0, exploitFrom: 40, last: arms.at(-1) ?? "auto" };
}
