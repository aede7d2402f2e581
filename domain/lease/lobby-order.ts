/** @file The order in which jobs are called in from a lobby: by round, the higher priority, submission, job id; and what rounds say. */

import { byCodeUnit } from "../values/ids.ts";
import type { LobbyRow } from "./lobby.ts";

/** What the order goes by. Without a job id: before all rows that are otherwise equal. */
export type LobbyKey = Pick<LobbyRow, "round" | "priority" | "submittedAtMs"> &
  Partial<Pick<LobbyRow, "jobId">>;

/**
 * Rounds come in eras: one for each description that the fleet has had. Who gave way because that description can never satisfy it has a round of its era,
 * so that it stands behind all who have not been judged by it.
 */
const ROUNDS_OF_ERA = 1_024;

export const eraOf = (round: number): number => Math.floor(round / ROUNDS_OF_ERA);

/** How often a job of that round gave way. */
export const turnsOf = (round: number): number => round % ROUNDS_OF_ERA;

/** The round of a job that gives way once more, at least of that era. */
export const roundAfter = (round: number, era = 0): number =>
  Math.max(eraOf(round), era) * ROUNDS_OF_ERA + Math.min(turnsOf(round) + 1, ROUNDS_OF_ERA - 1);

/** Before all rows of later eras, behind all others. */
export const endOfEra = (era: number): LobbyKey => ({
  round: (era + 1) * ROUNDS_OF_ERA,
  priority: Infinity,
  submittedAtMs: 0,
});

export const byCall = (a: LobbyKey, b: LobbyKey): number =>
  a.round - b.round ||
  b.priority - a.priority ||
  a.submittedAtMs - b.submittedAtMs ||
  byCodeUnit(a.jobId ?? "", b.jobId ?? "");
