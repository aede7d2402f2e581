/**
 * @file Events in time, and copies that share wires: the basis of the executor.
 *
 * Copies that use one wire at the same time share it equally; a copy is as fast as its slowest wire allows. Whenever a copy begins or ends,
 * the copies on its wires change pace. Cost: O(log events) an event, O(copies under way) a change.
 */

import { heap } from "../../lib/heap.ts";

export interface Clock {
  readonly nowMs: () => number;
  /** Calls back once that much time has passed; equal times in the order of asking. */
  readonly after: (ms: number, then: () => void) => void;
  /** Runs until nothing is left to happen. */
  readonly run: () => void;
}

interface Due {
  readonly atMs: number;
  readonly turn: number;
  readonly then: () => void;
}

export function clock(): Clock {
  let now = 0;
  let turn = 0;
  const queue = heap<Due>((a, b) => a.atMs < b.atMs || (a.atMs === b.atMs && a.turn < b.turn));
  return {
    nowMs: () => now,
    after: (ms, then) => {
      turn += 1;
      queue.push({ atMs: now + ms, turn, then });
    },
    run: () => {
      for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
        now = next.atMs;
        next.then();
      }
    },
  };
}

export interface Copy {
  readonly bytes: number;
  /** What its two ends reach when nothing else is under way. */
  readonly bytesPerMs: number;
  /** Names of the wires that it uses. */
  readonly wires: readonly string[];
  readonly done: () => void;
}

export interface Wires {
  readonly start: (copy: Copy) => void;
}

interface Moving {
  readonly copy: Copy;
  leftBytes: number;
  pace: number;
  sinceMs: number;
  /** Grows with every change of pace; an end that was planned at an older one is void. */
  version: number;
}

/** `capacity` gives each wire's bytes per millisecond. */
export function wires(time: Clock, capacity: (wire: string) => number): Wires {
  const onWire = new Map<string, Set<Moving>>();

  const settle = (moving: Moving): void => {
    const now = time.nowMs();
    moving.leftBytes = Math.max(0, moving.leftBytes - (now - moving.sinceMs) * moving.pace);
    moving.sinceMs = now;
  };
  const setPace = (moving: Moving): void => {
    settle(moving);
    let pace = moving.copy.bytesPerMs;
    for (const wire of moving.copy.wires)
      pace = Math.min(pace, capacity(wire) / Math.max(1, onWire.get(wire)?.size ?? 1));
    if (pace === moving.pace) return;
    moving.pace = pace;
    moving.version += 1;
    const { version } = moving;
    time.after(moving.leftBytes / pace, () => {
      if (moving.version === version) finish(moving);
    });
  };
  const neighbours = (moving: Moving): Set<Moving> =>
    new Set(moving.copy.wires.flatMap((wire) => [...(onWire.get(wire) ?? [])]));
  const finish = (moving: Moving): void => {
    moving.version += 1;
    for (const wire of moving.copy.wires) onWire.get(wire)?.delete(moving);
    for (const other of neighbours(moving)) setPace(other);
    moving.copy.done();
  };

  return {
    start: (copy) => {
      const moving = { copy, leftBytes: copy.bytes, pace: 0, sinceMs: time.nowMs(), version: 0 };
      for (const wire of copy.wires) {
        const others = onWire.get(wire) ?? new Set();
        others.add(moving);
        onWire.set(wire, others);
      }
      setPace(moving);
      for (const other of neighbours(moving)) setPace(other);
    },
  };
}
