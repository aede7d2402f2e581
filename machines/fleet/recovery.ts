/**
 * @file Asks agents and jobs what there is: all of them after the loss of the ledger, the agents alone after a change of their terms.
 *
 * A fleet that lost its ledger grants nothing until the first answers could arrive. That time does not count against any patience. It
 * believes answers about leases that it does not know until some time after the last questions (ledger-recovery.ts).
 */

import type { RecoverOrder } from "../../protocol/control-contract.ts";
import { COST, spend } from "./continue.ts";
import { afterGap } from "./patience.ts";
import { fold, issue, update, type FleetStep } from "./state.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { isUnended, LATE_ANSWERS_MS } from "../../scheduling/ledger/apply/ledger-recovery.ts";

/** How long the answers may take, once everybody has been asked. */
const QUIET_MS = 1_000;

/** Starts what is due, if anything. */
export function startRecovery(step: FleetStep, nowMs: number): FleetStep {
  const { ledger, recovery } = step.state;
  const [nextAtMs = Infinity, ...later] = recovery.recoverAtMs;
  if (nextAtMs <= nowMs)
    return ask(
      update(step, { recovery: { ...recovery, recoverAtMs: later } }),
      recovery.areWordsLost ? WORDS_LOST : ledgerLost(ledger),
    );
  if (recovery.isReportDue) return ask(step, AGENTS_ONLY);
  const isAsked = nextAtMs === Infinity && recovery.underway.length === 0;
  if (!isAsked || !isUnended(ledger)) return step;
  return fold(step, { kind: "recovery-asked", untilMs: nowMs + LATE_ANSWERS_MS, nowMs });
}

type Loss = Pick<RecoverOrder, "isLedgerLost" | "areWordsLost" | "creditsFrom">;
const WORDS_LOST: Loss = { isLedgerLost: false, areWordsLost: true };
const AGENTS_ONLY: Loss = { isLedgerLost: false };

/** Everybody is asked three times, and the ledger gives credits between. */
function ledgerLost({ intake }: Ledger): Loss {
  if (intake === undefined) return { isLedgerLost: true };
  const out = [...intake.lobbies.values()].flatMap(({ credits }) => [...credits.keys()]);
  const creditsFrom = out.reduce((least, number) => Math.min(least, number), intake.nextCredit);
  return { isLedgerLost: true, creditsFrom };
}

function ask(step: FleetStep, loss: Loss): FleetStep {
  const { name: fleet, ledger, recovery, nextId } = step.state;
  const clusters = ledger.shape.clusters.map(({ id }) => id);
  const underway = [...recovery.underway, nextId];
  const started = update(step, { recovery: { ...recovery, isReportDue: false, underway } });
  return issue(spend(started, COST.background, clusters), (id) => {
    return { kind: "recover", id, order: { fleet, clusters, ...loss } };
  });
}

/** Everybody has been asked, as far as they could be reached. */
export function endRecovery(step: FleetStep, ended: number, nowMs: number): FleetStep {
  const { recovery, patience, startedAtMs } = step.state;
  if (!recovery.underway.includes(ended)) return step;
  const underway = recovery.underway.filter((id) => id !== ended);
  const quietUntilMs = Math.min(recovery.quietUntilMs, nowMs + QUIET_MS);
  if (recovery.quietUntilMs < Infinity)
    return update(step, { recovery: { ...recovery, underway, quietUntilMs }, isTurnDue: true });
  return update(step, {
    recovery: { ...recovery, underway, quietUntilMs },
    patience: afterGap(patience, { fromMs: startedAtMs, toMs: quietUntilMs }),
    isTurnDue: true,
  });
}
