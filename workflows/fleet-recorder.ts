/**
 * @file What a fleet tells whoever replays its history to look into it: the ledger it began with and every event that it folds.
 *
 * Only a worker that replays under the name `RECORDER` is told, through a sink; a fleet that runs calls none and tells nobody.
 * So what is told is exactly what the workflow did, whatever the order of its history's events was.
 */

import { proxySinks, workflowInfo, type Sinks } from "@temporalio/workflow";
import type { PackedLedger } from "../scheduling/ledger-codec.ts";
import type { LedgerEvent } from "../scheduling/ledger.ts";
import { RECORDER } from "./messages.ts";

export interface RecorderSinks extends Sinks {
  readonly recorder: {
    began(ledger: PackedLedger): void;
    folded(event: LedgerEvent): void;
  };
}

/** Undefined in every run that is not such a replay. */
export const recorder = (): RecorderSinks["recorder"] | undefined =>
  workflowInfo().taskQueue.startsWith(RECORDER) ? proxySinks<RecorderSinks>().recorder : undefined;
