/** @file When time alone makes a turn of a fleet due. Cost: that of the parts that are asked. */

import {
  nextFenceAtMs,
  nextLookAtMs,
  nextReturnAtMs,
} from "../../scheduling/ledger/apply/apply.ts";
import { nextAuditAtMs } from "./audits.ts";
import { nextTimedPostAtMs } from "./deliveries.ts";
import { nextEstimatesAtMs } from "./estimates.ts";
import { nextExpiryAtMs } from "./patience.ts";
import type { FleetState } from "./state.ts";

/** When time alone makes a turn due. */
export function nextTimeAtMs(state: FleetState): number {
  const { ledger, cycle, recovery, patience } = state;
  return Math.min(
    // A cycle that is due judges every patience that is over by then.
    cycle.needsDecision ? recovery.quietUntilMs : nextExpiryAtMs(patience, ledger),
    cycle.wakeAtMs,
    nextLedgerClockAtMs(state),
    nextAuditAtMs(state),
    nextEstimatesAtMs(state),
    recovery.recoverAtMs[0] ?? Infinity,
    nextTimedPostAtMs(state),
  );
}

/** When time alone changes the ledger. */
export const nextLedgerClockAtMs = ({ ledger }: FleetState): number =>
  Math.min(
    nextFenceAtMs(ledger) ?? Infinity,
    nextReturnAtMs(ledger) ?? Infinity,
    nextLookAtMs(ledger) ?? Infinity,
  );
