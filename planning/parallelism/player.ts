/**
 * @file Plays steps of splits while the work lasts. Work is counted before it is done: a step is played no further than what is left of it allows.
 */

import type { Search } from "./candidates.ts";
import { expertDegree, type Split } from "./split.ts";
import { stepFloorMs } from "./step-floor.ts";
import { playedStep, playedWithin, type StepTime } from "./step-time.ts";
import type { Unit } from "./site.ts";

export interface Player {
  /** Undefined where the step is not shorter, or too little is left to play it. */
  readonly play: (split: Split, thanMs: number) => StepTime | undefined;
  /** Charges a split that was looked at and not played. */
  readonly pass: (split: Split) => void;
  readonly isSpent: () => boolean;
}

/** A player for each part of a search, with its work: moments × units. */
export type Players = (work: number) => Player;

/** What a moment costs beside its units, in units. */
const MOMENT = 16;
/** What a step costs before its first moment, its floor, and the first floor of a list of cells, in moments. */
const START = 24;
const FLOOR = 3;
const READ = 12;
/** Of all players of a search together. */
const ALL_WORK = 14e6;
/** What a step takes at most: one with many micro-batches that never repeat must not use up the work of all others. */
const MOST_PLAYED = 1e6;

/** Of few GPUs: floors say which are played, each is played once, and the moments that are played count. */
export function playersByFloors({ request: { site, onCandidate }, sums }: Search): Players {
  const setting = { site, sums };
  /** By the list of cells, then by all else; moments where so many did not bring it to its end. */
  const known = new Map<readonly Unit[], Map<string, StepTime | number>>();
  let allLeft = ALL_WORK;
  return (work) => {
    let left = Math.min(work, allLeft);
    const spend = (units: number): void => {
      left -= units;
      allLeft -= units;
    };
    return {
      play: (split, thanMs) => {
        const { cells } = split;
        const each = cells.length + MOMENT;
        const ofCells = known.get(cells) ?? new Map<string, StepTime | number>();
        if (!known.has(cells)) spend(READ * each);
        known.set(cells, ofCells);
        const key = keyOf(split);
        const held = ofCells.get(key) ?? 0;
        if (typeof held === "object") return held.totalMs < thanMs ? held : undefined;
        if (left <= 0) return undefined;
        spend(FLOOR * each);
        if (stepFloorMs(split, setting) >= thanMs) return undefined;
        const most = Math.floor(Math.min(left, MOST_PLAYED) / each) - START;
        if (most <= held) return undefined;
        const { time, moments } = playedWithin(split, setting, most);
        spend((START + moments) * each);
        ofCells.set(key, time ?? moments);
        if (time === undefined) return undefined;
        onCandidate?.(split, time);
        return time.totalMs < thanMs ? time : undefined;
      },
      pass: ({ cells }) => {
        spend(cells.length);
      },
      isSpent: () => left <= 0,
    };
  };
}

const keyOf = (split: Split): string => {
  const { stages, microBatch, contexts = 1, experts = 1, runs = 1, width } = split;
  const { isRecomputing, isRecomputingScores = false, isSharded, shards = "" } = split;
  return `${stages}/${width}/${contexts}/${experts}/${runs}/${microBatch}/${isRecomputing}/${isRecomputingScores}/${isSharded}/${shards}/${split.bounds.join()}`;
};

/** Of many GPUs, where a floor takes longer than it saves: each step counts as all its micro-batches, though what repeats is left out. */
export function playersByEstimates({ request: { site, onCandidate }, sums }: Search): Players {
  const setting = { site, sums };
  return (work) => {
    let left = work;
    const pass = (split: Split): void => {
      const { microBatches, cells, runs = 1 } = split;
      left -= microBatches * runs * cells.length ** 2 * expertDegree(split);
    };
    return {
      play: (split, thanMs) => {
        pass(split);
        if (left < 0) return undefined;
        const time = playedStep(split, setting);
        onCandidate?.(split, time);
        return time.totalMs < thanMs ? time : undefined;
      },
      pass,
      isSpent: () => left < 0,
    };
  };
}
