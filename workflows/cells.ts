/**
 * @file Where a job stands in its ring of fleets: which one it asks, how long it waits there, when it may leave, and what became of the former ones.
 *
 * The ring begins with the job's home. Each fleet is asked in turn, round and round; in every further round the patience is twice what it was, up
 * to six hours, so that a job that nobody can place costs its history less and less. In the first round a fleet that can never place it, or that is not
 * there, is left at once; later each has its whole time, or a hopeless job would never rest. The fleet judges patience (patience.ts), not the job.
 * Hidden mutable state, one a job; no clock and no I/O.
 */

import { HOPELESS_CODES, type PendingCode } from "../domain/codes.ts";
import type { CellRule } from "../domain/job.ts";
import type { PendingReason } from "../domain/pending.ts";
import { ms, type Ms } from "../domain/units.ts";

export interface CellMove {
  readonly from: string;
  readonly to: string;
  readonly atMs: number;
  readonly code: PendingCode;
  /** In a sentence: why it was not placed there. */
  readonly reason: string;
}

/** What a job shows of its ring. */
export interface CellsView {
  readonly home: string;
  readonly ring: readonly string[];
  /** Counts from 1. */
  readonly round: number;
  readonly moved: number;
  /** The last ones. */
  readonly moves: readonly CellMove[];
}

export interface Cells {
  /** The fleet that is asked, or runs it. */
  readonly here: () => string;
  readonly ring: readonly string[];
  /** How long it waits here; absent where there is nowhere else to go. */
  readonly patienceMs: () => Ms | undefined;
  /** Whether it should leave, having been told this. */
  readonly isLeft: (told: PendingReason | undefined) => boolean;
  /** On to the next fleet. */
  readonly move: (why: PendingReason | undefined, atMs: number) => CellMove;
  /** From now on it stays where it is: what it left there is needed. */
  readonly settle: () => void;
  /** Absent of a job that has one fleet. */
  readonly view: () => CellsView | undefined;
}

const MAX_PATIENCE_MS = 6 * 3_600_000;
const SHOWN_MOVES = 10;

export function openCells(home: string, rule?: CellRule): Cells {
  const ring = ringOf(home, rule?.fleets ?? []);
  const moves: CellMove[] = [];
  let at = 0;
  let round = 1;
  let moved = 0;
  let isSettled = ring.length < 2;
  const here = (): string => ring[at] ?? home;
  return {
    here,
    ring,
    patienceMs: () =>
      isSettled || rule === undefined ? undefined : patienceOf(rule.patienceMs, round),
    isLeft: (told) => {
      if (isSettled || told === undefined) return false;
      return told.code === "PatienceOver" || (round === 1 && isHopeless(told.code));
    },
    move: (why, atMs) => {
      const from = here();
      at = (at + 1) % ring.length;
      if (at === 0) round += 1;
      moved += 1;
      const { code = "PatienceOver", message: reason = "it was not placed there" } = why ?? {};
      const move = { from, to: here(), atMs, code, reason };
      moves.push(move);
      if (moves.length > SHOWN_MOVES) moves.shift();
      return move;
    },
    settle: () => {
      isSettled = true;
    },
    view: () => (ring.length < 2 ? undefined : { home, ring, round, moved, moves: [...moves] }),
  };
}

/** From the home on where the list names it, before the list where not. */
function ringOf(home: string, fleets: readonly string[]): readonly string[] {
  const at = Math.max(0, fleets.indexOf(home));
  return [...new Set([home, ...fleets.slice(at), ...fleets.slice(0, at)])];
}

const patienceOf = (first: Ms, round: number): Ms =>
  ms(Math.max(first, Math.min(first * 2 ** Math.min(round - 1, 32), MAX_PATIENCE_MS)));

const isHopeless = (code: PendingCode): boolean => code === "NoFleet" || HOPELESS_CODES.has(code);
