/**
 * @file Leaves out what repeats of a played step: once all units are in the state in which they were some turns ago, but for that many more micro-batches, every further
 * such period takes as long and ends alike, until the first unit comes to the end of its forwards.
 *
 * A state: what each unit waits for, how long or how many bytes, and its operations since. Inputs that have arrived follow from these, because each was sent by a unit's operation.
 * Replicas on unlike GPUs may never come to a period: then each micro-batch is played. Cost: O(units) a turn.
 */

import { aheadOf } from "./pipeline-time.ts";
import type { Actor } from "./timeline-stage.ts";
import { turnOf, type Units } from "./timeline-units.ts";

/** Periods of more turns are not looked for. */
const MOST_TURNS = 4;
/** Of a period: times that differ by less are equal. */
const ROUNDING = 1e-10;

interface State {
  readonly nowMs: number;
  readonly done: Int32Array;
  readonly waitMs: Float64Array;
  /** NaN where nothing is under way. */
  readonly left: Float64Array;
  readonly links: readonly (readonly number[])[];
  readonly next: readonly (() => void)[];
  readonly sendMs: Float64Array;
  readonly exchangeMs: Float64Array;
}

/** To be asked at each turn: how much later it is when all whole periods are over, which `units` then are; 0 where none is found. */
export function periodsOf(units: Units): (nowMs: number) => number {
  const { order, replicas, done } = units;
  const total = order.runs * order.microBatches;
  const ahead = Int32Array.from(done, (_, cell) => aheadOf(Math.floor(cell / replicas), order));
  const turn = turnOf(order);
  const states: State[] = [];
  let isOver = false;
  return (nowMs) => {
    if (isOver || done.some((number, cell) => number < (ahead[cell] ?? 0))) return 0;
    const state = stateOf(units, nowMs);
    for (let turns = 1; turns <= states.length; turns += 1) {
      const before = states[states.length - turns];
      if (before === undefined || !isRepeated(state, before, turns * turn)) continue;
      isOver = true;
      let periods = Infinity;
      for (const [cell, number] of done.entries()) {
        const last = 2 * total - (ahead[cell] ?? 0) - 1;
        periods = Math.min(periods, Math.floor((last - number) / (turns * turn)));
      }
      if (periods <= 0) return 0;
      repeat(units, { periods, operations: turns * turn, state, before });
      return periods * (nowMs - before.nowMs);
    }
    states.push(state);
    if (states.length > MOST_TURNS) states.shift();
    return 0;
  };
}

function stateOf({ actors, done, sendMs, exchangeMs }: Units, nowMs: number): State {
  return {
    nowMs,
    done: done.slice(),
    waitMs: Float64Array.from(actors, ({ wakesAt }) => wakesAt - nowMs),
    left: Float64Array.from(actors, ({ isMoving, flow }) => (isMoving ? flow.left : NaN)),
    links: actors.map(({ flow }) => flow.links),
    next: actors.map((actor: Actor) => actor.next),
    sendMs: sendMs.slice(),
    exchangeMs: exchangeMs.slice(),
  };
}

function isRepeated(state: State, before: State, operations: number): boolean {
  const slack = ROUNDING * (state.nowMs - before.nowMs);
  for (const [cell, number] of state.done.entries()) {
    if (number - (before.done[cell] ?? 0) !== operations) return false;
    if (state.next[cell] !== before.next[cell]) return false;
    const [left = NaN, other = NaN] = [state.left[cell], before.left[cell]];
    if (Number.isNaN(left) !== Number.isNaN(other)) return false;
    if (!Number.isNaN(left)) {
      if (state.links[cell] !== before.links[cell]) return false;
      if (Math.abs(left - other) > ROUNDING * Math.max(left, other)) return false;
      continue;
    }
    const [wait = Infinity, waited = Infinity] = [state.waitMs[cell], before.waitMs[cell]];
    if (wait !== waited && !(Math.abs(wait - waited) <= slack)) return false;
  }
  return true;
}

interface Repeated {
  readonly periods: number;
  /** Of each unit, in a period. */
  readonly operations: number;
  readonly state: State;
  readonly before: State;
}

function repeat(units: Units, { periods, operations, state, before }: Repeated): void {
  const { order, replicas, done, since, sendMs, exchangeMs, forwards, backwards } = units;
  const shift = periods * (state.nowMs - before.nowMs);
  for (const [cell, actor] of units.actors.entries()) {
    actor.wakesAt += shift;
    since[cell] = (since[cell] ?? 0) + shift;
    done[cell] = (done[cell] ?? 0) + periods * operations;
    for (const [now, then] of [
      [sendMs, before.sendMs],
      [exchangeMs, before.exchangeMs],
    ] as const)
      now[cell] = (now[cell] ?? 0) + periods * ((now[cell] ?? 0) - (then[cell] ?? 0));
  }
  const count = order.stages * replicas;
  const inputs = (periods * operations) / 2 / order.runs;
  // Nothing comes to the first run forward, nor to the last one backward.
  for (let place = 0; place < order.runs * count; place += 1) {
    if (place >= replicas) forwards[place] = (forwards[place] ?? 0) + inputs;
    if (place < order.runs * count - replicas) backwards[place] = (backwards[place] ?? 0) + inputs;
  }
}
