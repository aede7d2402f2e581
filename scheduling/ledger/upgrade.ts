/**
 * @file Takes a ledger from one version of the rules to the next.
 *
 * Each step makes of a ledger that keeps the older rules one that keeps the newer ones; a fleet takes them when it continues as new, once an
 * operator has committed it. There is no way back. Cost: O(ledger) a step.
 * Replayed: a step that a fleet has taken must not change.
 */

import {
  BOUNDED_RULES,
  CLOCKED_RULES,
  FEW_CALLED_RULES,
  KEPT_AFTER_LOSS_RULES,
  NEWEST_RULES,
  OLDEST_RULES,
  REPLACED_HOSTS_RULES,
  SIGNED_RULES,
  SILENT_STRANGERS_RULES,
  type Ledger,
} from "./ledger.ts";

/** A run of the fleet ends in a task of its own, and sooner where deliveries never rest (docs/decisions/0173). */
export const OWN_TASK_RULES = 9;

/** A run of the fleet that operators have changed is old enough for the server not to delay the next one (docs/decisions/0201). */
export const SPACED_RUNS_RULES = 10;

/** A fleet that recovers believes nobody about a lease that it gave itself and lacks: that one has ended (docs/decisions/0214). */
export const OWN_TOKENS_RULES = 10;

/** A lobby's report from before it was told of rows, and the request of a run that another has followed, take no waiting job from its lobby (docs/decisions/0214). */
export const KEPT_ROWS_RULES = 10;

/** A run of the fleet goes on while words pour in, where it stood still until its clock rang to end it (docs/decisions/0190). */
export const FLOODED_TURNS_RULES = 11;

/** The end of a job's later run frees nothing that an earlier one has left unconfirmed (docs/decisions/0251). */
export const LATER_ENDS_RULES = 11;

/** A fleet reads no word that is larger than its senders write, and its run ends between two of those that pour in (docs/decisions/0260). */
export const SHORT_WORDS_RULES = 12;

type Step = (ledger: Ledger) => Ledger;

/** By the version that a step starts from. */
const STEPS: ReadonlyMap<number, Step> = new Map<number, Step>([
  [OLDEST_RULES, (ledger) => ({ ...ledger, applyVersion: BOUNDED_RULES })],
  [BOUNDED_RULES, (ledger) => ({ ...ledger, applyVersion: CLOCKED_RULES })],
  [CLOCKED_RULES, (ledger) => ({ ...ledger, applyVersion: SILENT_STRANGERS_RULES })],
  [SILENT_STRANGERS_RULES, (ledger) => ({ ...ledger, applyVersion: SIGNED_RULES })],
  [SIGNED_RULES, (ledger) => ({ ...ledger, applyVersion: REPLACED_HOSTS_RULES })],
  [REPLACED_HOSTS_RULES, (ledger) => ({ ...ledger, applyVersion: FEW_CALLED_RULES })],
  [FEW_CALLED_RULES, (ledger) => ({ ...ledger, applyVersion: KEPT_AFTER_LOSS_RULES })],
  [KEPT_AFTER_LOSS_RULES, (ledger) => ({ ...ledger, applyVersion: OWN_TASK_RULES })],
  [OWN_TASK_RULES, (ledger) => ({ ...ledger, applyVersion: SPACED_RUNS_RULES })],
  [SPACED_RUNS_RULES, (ledger) => ({ ...ledger, applyVersion: FLOODED_TURNS_RULES })],
  [FLOODED_TURNS_RULES, (ledger) => ({ ...ledger, applyVersion: SHORT_WORDS_RULES })],
]);

/** The same ledger when it follows the rules `to` already. */
export function upgradeLedger(ledger: Ledger, to: number = NEWEST_RULES): Ledger {
  let upgraded = ledger;
  while (upgraded.applyVersion < to) {
    const step = STEPS.get(upgraded.applyVersion);
    if (step === undefined)
      throw new RangeError(`no step leads from version ${upgraded.applyVersion} of the rules`);
    upgraded = step(upgraded);
  }
  return upgraded;
}
