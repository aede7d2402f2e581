/**
 * @file The units of a played step: each works through its 1F1B order, exchanges, and sends on what it made; it is busy while it does, and an operation starts when its
 * input has arrived. What a unit is doing is in its number of operations and in what its actor waits for, so that states can be compared (timeline-period.ts).
 */

import {
  aheadOf,
  isForwardAt,
  microBatchOf,
  ownRunOf,
  placeAt,
  type Order,
} from "./pipeline-time.ts";
import { contextMeetings, exchanger } from "./timeline-exchanges.ts";
import type { Actor, Path, Stage } from "./timeline-stage.ts";

export interface Units {
  readonly order: Order;
  readonly replicas: number;
  /** By cell. */
  readonly actors: readonly Actor[];
  /** Operations that each has done. */
  readonly done: Int32Array;
  /** By run of a cell's stage × cells + cell: inputs that have arrived. */
  readonly forwards: Int32Array;
  readonly backwards: Int32Array;
  /** When each began what it sends or exchanges. */
  readonly since: Float64Array;
  /** What the sends and the exchanges of each took so far. */
  readonly sendMs: Float64Array;
  readonly exchangeMs: Float64Array;
  /** When the last backward of all so far ended. */
  endMs: number;
  /** Whether the last unit has come to an operation at which a steady state may begin anew. */
  isAtTurn: boolean;
}

/** Operations between turns: a forward and a backward, or where stages have several runs those of as many micro-batches as there are stages, for each run. */
export const turnOf = ({ stages, runs }: Order): number => (runs === 1 ? 2 : 2 * stages * runs);

/** `isDone` is told of each stage whose replicas have done their last backward. */
export function startUnits(stage: Stage, isDone: (at: number) => void): Units {
  const { task, actor, wait } = stage;
  const { replicas, stages, microBatches, runs = 1 } = task;
  const count = stages * replicas;
  const units: Units = {
    order: { stages, runs, microBatches },
    replicas,
    actors: Array.from({ length: count }, actor),
    done: new Int32Array(count),
    forwards: new Int32Array(runs * count),
    backwards: new Int32Array(runs * count),
    since: new Float64Array(count),
    sendMs: new Float64Array(count),
    exchangeMs: new Float64Array(count),
    endMs: 0,
    isAtTurn: false,
  };
  const working = new Int32Array(stages).fill(replicas);
  const starts: (() => void)[] = [];
  const all: AllUnits = {
    stage,
    units,
    isBlocked: new Uint8Array(count),
    starts,
    meetings: contextMeetings(stage),
    end: (at) => {
      working[at] = (working[at] ?? 0) - 1;
      if (working[at] === 0) isDone(at);
    },
  };
  for (const [cell, own] of units.actors.entries()) starts.push(unitOf(cell, own, all));
  for (const [cell, start] of starts.entries()) {
    const own = units.actors[cell];
    if (own !== undefined) wait(own, 0, start);
  }
  return units;
}

interface AllUnits {
  readonly stage: Stage;
  readonly units: Units;
  readonly isBlocked: Uint8Array;
  readonly starts: readonly (() => void)[];
  readonly meetings: ReturnType<typeof contextMeetings>;
  readonly end: (at: number) => void;
}

/** What begins the unit's next operation. */
function unitOf(
  cell: number,
  own: Actor,
  { stage, units, isBlocked, starts, meetings, end }: AllUnits,
): () => void {
  const { task, paths, clock, wait, move } = stage;
  const { replicas, order, done, since, sendMs, exchangeMs } = units;
  const { stages, runs, microBatches } = order;
  const [count, total] = [stages * replicas, runs * microBatches];
  const at = Math.floor(cell / replicas);
  const ahead = aheadOf(at, order);
  const [turn, isLast] = [turnOf(order), cell === count - 1];
  const pass = { run: 0, isForward: true };
  /** Of the operation: its run and cell, and those to which the result goes. */
  let [place, toPlace] = [0, 0];
  const ways: { ahead?: Path; back?: Path } = {};
  const begin = (): void => {
    const number = done[cell] ?? 0;
    if (number === 2 * total) {
      units.endMs = clock.nowMs;
      end(at);
      return;
    }
    const isForward = isForwardAt(number, ahead, total);
    const turnAt = placeAt(number, ahead, total);
    const ownRun = ownRunOf(turnAt, isForward, order);
    place = ownRun * count + cell;
    pass.run = ownRun * stages + at;
    pass.isForward = isForward;
    const hasInput = isForward ? pass.run > 0 : pass.run < runs * stages - 1;
    const inputs = isForward ? units.forwards : units.backwards;
    if (hasInput && (inputs[place] ?? 0) <= microBatchOf(turnAt, order)) {
      isBlocked[cell] = 1;
      own.next = begin;
      return;
    }
    toPlace = isForward ? place + replicas : place - replicas;
    wait(own, (isForward ? task.forwardMs[place] : task.backwardMs[place]) ?? 0, passAround);
  };
  const arrive = (): void => {
    sendMs[cell] = (sendMs[cell] ?? 0) + clock.nowMs - (since[cell] ?? 0);
    const received = pass.isForward ? units.forwards : units.backwards;
    received[toPlace] = (received[toPlace] ?? 0) + 1;
    const to = toPlace % count;
    if (isBlocked[to] === 1) {
      isBlocked[to] = 0;
      starts[to]?.();
    }
    goOn();
  };
  const goOn = (): void => {
    const number = (done[cell] ?? 0) + 1;
    done[cell] = number;
    units.isAtTurn ||= isLast && number >= ahead && (number - ahead) % turn === 0;
    begin();
  };
  const wayOf = (): Path =>
    pass.isForward
      ? (ways.ahead ??= paths.between(cell, (cell + replicas) % count))
      : (ways.back ??= paths.between(cell, (cell - replicas + count) % count));
  const transmit = (): void => {
    const bytes = task.sendBytes[pass.isForward ? pass.run : pass.run - 1] ?? 0;
    move(own, { links: wayOf().links, bytes }, arrive);
  };
  const send = (): void => {
    if (toPlace < 0 || toPlace >= runs * count) {
      goOn();
      return;
    }
    since[cell] = clock.nowMs;
    wait(own, wayOf().latencyMs, transmit);
  };
  const exchanging = { cell, own, pass, since, exchangeMs };
  const exchange = exchanger(stage, { ...exchanging, next: send });
  const passAround = meetings({ ...exchanging, next: exchange });
  return begin;
}
