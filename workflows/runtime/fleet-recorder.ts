/**
 * @file Tells the ledger with which a fleet's run began, and every event that it folded, to a worker that replays the run's history.
 *
 * Only a worker that replays under the name `RECORDER` hears of them, through a sink; a live fleet calls no sink. The replay runs the fleet's
 * own code, so the events are exactly those that the ledger folded, in that order, whatever the order of the history was.
 */

import { proxySinks, workflowInfo, type Sinks } from "@temporalio/workflow";
import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import type { LedgerEvent } from "../../scheduling/ledger/ledger.ts";
import { RECORDER } from "../../protocol/names.ts";

export interface RecorderSinks extends Sinks {
  readonly recorder: {
    began(ledger: PackedLedger): void;
    folded(event: LedgerEvent): void;
  };
}

/** Undefined in every run that is not such a replay. */
export const recorder = (): RecorderSinks["recorder"] | undefined =>
  workflowInfo().taskQueue.startsWith(RECORDER) ? proxySinks<RecorderSinks>().recorder : undefined;
