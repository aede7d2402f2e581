/**
 * @file Plays one job under one tuner: the time and the arm of each iteration, and which iterations explored.
 *
 * A chooser is asked as the live tuner would be: when the exploring runs of its last choice are over (`lag` iterations later, until when the job runs
 * on what the choice named), and every `LOOK` iterations while an arm is in use. It sees the times that are `lag` iterations old or older, as far as
 * a tuner's memory keeps them, and what it decided last.
 */

import type { Arm } from "../../domain/bandwidth/collective-arm.ts";
import type { Choice } from "../../tuning/choice.ts";
import type { Published } from "../../tuning/elimination.ts";
import type { StepSample } from "../../tuning/timed-choice.ts";
import { keptSamples } from "../../workflows/learners/collective-memory.ts";
import type { Draws } from "../../simulator/collectives/draws.ts";
import { isEmulated, type EmulatedArm } from "../../simulator/collectives/emulated-arms.ts";

const LOOK = 12;

export interface Played {
  readonly ms: readonly number[];
  readonly arms: readonly EmulatedArm[];
  /** How many iterations explored. */
  readonly exploring: number;
  /** The first iteration after the last one that explored. */
  readonly exploitFrom: number;
  /** In use at the end. */
  readonly last: EmulatedArm;
}

interface Tuner {
  readonly chooser: (
    samples: readonly StepSample[],
    arms: readonly EmulatedArm[],
    published?: Published,
  ) => Choice;
  readonly arms: readonly EmulatedArm[];
  /** Iterations. */
  readonly lag?: number;
  /** Of what is kept, the part that still counts; all when absent. */
  readonly since?: (samples: readonly StepSample[]) => readonly StepSample[];
  /** The step around a collective of so many ms. Absent: collectives are all that is timed. */
  readonly stepMs?: (collectiveMs: number, iteration: number) => number;
}

export function playChooser(draws: Draws, tuner: Tuner): Played {
  const { chooser, arms, lag = 0, since = (samples) => samples, stepMs } = tuner;
  const tape = tapeOf(draws, stepMs);
  let known: readonly StepSample[] = [];
  let arrived = 0;
  let published: Published = { exploited: undefined };
  let last: EmulatedArm = "auto";
  while (tape.length() < draws.iterations) {
    const until = Math.max(0, tape.length() - lag);
    known = since(keptSamples([...known, ...tape.samples.slice(arrived, until)]));
    arrived = until;
    const choice = chooser(known, arms, published);
    published = { exploited: choice.kind === "exploit" ? choice.arm : undefined };
    if (choice.kind === "exploit") {
      last = emulated(choice.arm);
      tape.run(last, LOOK);
      continue;
    }
    for (const { arm, count } of choice.runs) tape.run(emulated(arm), count, true);
    last = emulated(choice.meanwhile);
    tape.run(last, lag);
  }
  return tape.played(last);
}

/** A tuner that decides before each iteration, and learns of it when its time arrives; all of it counts as exploring but what `isExploring` denies. */
export interface Learner {
  readonly next: () => { readonly arm: EmulatedArm; readonly isExploring: boolean };
  readonly learn: (arm: EmulatedArm, ms: number) => void;
}

/** The time of an iteration arrives `lag` iterations after its end. */
export function playLearner(draws: Draws, learner: Learner, lag = 0): Played {
  const tape = tapeOf(draws);
  let last: EmulatedArm = "auto";
  while (tape.length() < draws.iterations) {
    const { arm, isExploring } = learner.next();
    tape.run(arm, 1, isExploring);
    const arrived = tape.samples[tape.length() - 1 - lag];
    if (arrived !== undefined) learner.learn(emulated(arrived.arm), arrived.ms);
    if (!isExploring) last = arm;
  }
  return tape.played(last);
}

export const playFixed = (draws: Draws, arm: EmulatedArm): Played =>
  playLearner(draws, { next: () => ({ arm, isExploring: false }), learn: () => undefined });

interface Tape {
  readonly samples: StepSample[];
  readonly length: () => number;
  readonly run: (arm: EmulatedArm, count: number, isExploring?: boolean) => void;
  readonly played: (last: EmulatedArm) => Played;
}

function tapeOf(draws: Draws, stepMs?: Tuner["stepMs"]): Tape {
  const samples: StepSample[] = [];
  const times: number[] = [];
  const arms: EmulatedArm[] = [];
  let exploring = 0;
  let exploitFrom = 0;
  const run = (arm: EmulatedArm, count: number, isExploring = false): void => {
    for (let at = 0; at < count && arms.length < draws.iterations; at += 1) {
      const ms = draws.ms(arm, arms.length);
      const timed = stepMs && { ms: stepMs(ms, arms.length), collectiveMs: ms };
      samples.push({ arm, ms, ...timed });
      times.push(ms);
      arms.push(arm);
      if (isExploring) {
        exploring += 1;
        exploitFrom = arms.length;
      }
    }
  };
  const played = (last: EmulatedArm): Played => ({
    ms: times,
    arms,
    exploring,
    exploitFrom,
    last,
  });
  return { samples, length: () => arms.length, run, played };
}

function emulated(arm: Arm): EmulatedArm {
  if (!isEmulated(arm)) throw new Error(`${arm} is not emulated`);
  return arm;
}
