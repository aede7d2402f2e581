/**
 * @file The ring of fleets that may run a job: which fleet it asks now, how long it waits there, when it may leave, and its last moves.
 *
 * The ring begins with the job's home, and grows by fleets to which somebody moves the job. The job asks each fleet in turn, round after round. Its patience doubles with each further round, up
 * to six hours, so that a job that no fleet can place costs its history less and less. In the first round the job leaves a fleet at once
 * when the fleet can never place it or does not exist; in later rounds each fleet has its whole time, or a hopeless job would never rest. The
 * fleet measures the patience, not the job.
 */

import { HOPELESS_CODES, type PendingCode } from "../../domain/values/codes.ts";
import type { CellRule } from "../../domain/job/job.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { CellMove, CellsView } from "../../protocol/job.ts";
import type { Moving } from "../../protocol/job-orders.ts";
import { ms, type Ms } from "../../domain/values/units.ts";

export interface Cells {
  readonly home: string;
  readonly ring: readonly string[];
  /** Index of the present fleet in the ring. */
  readonly at: number;
  /** Counts from 1. */
  readonly round: number;
  readonly moved: number;
  /** The last ten. */
  readonly moves: readonly CellMove[];
  /** How long the job waits at a fleet in the first round; absent where it has one fleet. */
  readonly firstPatienceMs?: Ms;
  /** The job stays where it is: something that it needs lies there. */
  readonly isSettled: boolean;
}

const MAX_PATIENCE_MS = 6 * 3_600_000;
const SHOWN_MOVES = 10;

export function openCells(home: string, rule?: CellRule): Cells {
  const ring = ringOf(home, rule?.fleets ?? []);
  return {
    home,
    ring,
    at: 0,
    round: 1,
    moved: 0,
    moves: [],
    ...(rule !== undefined && { firstPatienceMs: rule.patienceMs }),
    isSettled: ring.length < 2,
  };
}

/** The fleet that the job asks, or that runs it. */
export const presentFleet = ({ ring, at, home }: Cells): string => ring[at] ?? home;

/** How long the job waits at the present fleet; undefined where it has nowhere else to go. */
export function patienceMs({ isSettled, firstPatienceMs: first, round }: Cells): Ms | undefined {
  if (isSettled || first === undefined) return undefined;
  const doubled = Math.min(first * 2 ** Math.min(round - 1, 32), MAX_PATIENCE_MS);
  return ms(Math.max(first, doubled));
}

/** Whether the job should leave its present fleet, given the reason why it waits there. */
export function shouldLeave({ isSettled, round }: Cells, reason?: PendingReason): boolean {
  if (isSettled || reason === undefined) return false;
  return reason.code === "PatienceOver" || (round === 1 && isHopeless(reason.code));
}

export function moveToNext(
  cells: Cells,
  why: PendingReason | undefined,
  atMs: number,
): { readonly cells: Cells; readonly move: CellMove } {
  const at = (cells.at + 1) % cells.ring.length;
  const { code = "PatienceOver", message: reason = "it was not placed there" } = why ?? {};
  const to = presentFleet({ ...cells, at });
  const move = { from: presentFleet(cells), to, atMs, code, reason };
  return {
    cells: { ...noted(cells, move), at, round: cells.round + (at === 0 ? 1 : 0) },
    move,
  };
}

/** By order: the ring grows by a fleet that is not in it, because what is over is given back at every fleet of it, and the job stays there. */
export function moveTo(
  cells: Cells,
  { to, by }: Pick<Moving, "to" | "by">,
  atMs: number,
): { readonly cells: Cells; readonly move: CellMove } {
  const ring = cells.ring.includes(to) ? cells.ring : [...cells.ring, to];
  const reason = `${by} has moved it`;
  const move = { from: presentFleet(cells), to, atMs, code: "Ordered", reason, by } as const;
  return { cells: settleCells({ ...noted(cells, move), ring, at: ring.indexOf(to) }), move };
}

const noted = (cells: Cells, move: CellMove): Cells => ({
  ...cells,
  moved: cells.moved + 1,
  moves: [...cells.moves, move].slice(-SHOWN_MOVES),
});

/** The same ring for a job that stays at its present fleet from now on. */
export const settleCells = (cells: Cells): Cells => ({ ...cells, isSettled: true });

/** Undefined for a job that has one fleet. */
export const cellsView = ({ home, ring, round, moved, moves }: Cells): CellsView | undefined =>
  ring.length < 2 ? undefined : { home, ring, round, moved, moves };

/** From the home on where the list names it, before the list where not. */
function ringOf(home: string, fleets: readonly string[]): readonly string[] {
  const at = Math.max(0, fleets.indexOf(home));
  return [...new Set([home, ...fleets.slice(at), ...fleets.slice(0, at)])];
}

const isHopeless = (code: PendingCode): boolean => code === "NoFleet" || HOPELESS_CODES.has(code);
