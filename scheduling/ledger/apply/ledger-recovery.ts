/**
 * @file A fleet that recovers: its ledger was lost, and agents and jobs tell it which leases there are.
 *
 * A ledger knows every token that it gave, so a report of any other is a mistake or a lie, except while the fleet recovers. Then tokens are
 * believed up to a bound. A lost ledger counts on 2^20 above what its last run began with, because one run gives fewer than that. The
 * bound lies 2^20 higher: if a false report raised the counter of the ledger that was lost, its leases lie above where the next one begins.
 * So the tokens of a fleet that is lost again and again are always below the bound of the next recovery.
 * Cost: O(1). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { token } from "../../../domain/values/ids.ts";
import { BOUNDED_RULES, type Ledger, type LedgerRecovery } from "../ledger.ts";
import type { LedgerTransaction } from "./transaction.ts";

/** How far a fleet that has lost its ledger counts on, beyond what it knows: grants may be on their way that no agent has seen. */
const LOST_LEDGER_TOKENS = 2 ** 20;

/** How long answers are believed after everybody has been asked. */
export const LATE_ANSWERS_MS = 600_000;

interface Known {
  readonly recovery?: LedgerRecovery | undefined;
}

/** Where the ledger after a lost one begins. */
export function afterLoss({
  applyVersion,
  nextToken,
}: Pick<Ledger, "applyVersion" | "nextToken">): Pick<Ledger, "nextToken" | "recovery"> {
  const next = tokenAfterLoss(nextToken);
  if (applyVersion < BOUNDED_RULES) return { nextToken: next };
  return { nextToken: next, recovery: { tokensBelow: tokenAfterLoss(next) } };
}

export const tokenAfterLoss = (nextToken: number): number => token(nextToken + LOST_LEDGER_TOKENS);

/** Whether the ledger itself has given the token: the lost one cannot have. Of a ledger that was never lost all are its own. */
export const isOwnToken = ({ recovery }: Known, given: number): boolean =>
  recovery === undefined || given >= recovery.tokensBelow - LOST_LEDGER_TOKENS;

/** Whether reports of leases that the ledger has never had may be true. */
export const isRecovering = ({ recovery }: Known, nowMs: number): boolean =>
  recovery !== undefined && nowMs < (recovery.untilMs ?? Infinity);

/** Every token that somebody can honestly know of is below. */
export function tokensBelow(ledger: Known & Pick<Ledger, "nextToken">, nowMs: number): number {
  const { recovery, nextToken } = ledger;
  return isRecovering(ledger, nowMs) ? Math.max(nextToken, recovery?.tokensBelow ?? 0) : nextToken;
}

/** Whether it is time to say that everybody has been asked. */
export const isUnended = ({ recovery }: Known): boolean =>
  recovery !== undefined && recovery.untilMs === undefined;

export function endRecovery(transaction: LedgerTransaction, untilMs: number): void {
  const { recovery } = transaction;
  if (recovery === undefined || recovery.untilMs !== undefined) return;
  transaction.recovery = { ...recovery, untilMs };
  transaction.isChanged = true;
}
