/**
 * @file The past of a fleet from its histories in Temporal: each run is replayed and reports every event that it applied.
 *
 * The fleet's own workflow code replays (workflows/runtime/fleet-recorder.ts), so the order of events is exact. A run has at
 * most some 3,000 events of history; earlier runs are read one by one, newest first.
 */

import type { Client } from "@temporalio/client";
import { Worker, type InjectedSinks } from "@temporalio/worker";
import type { Ledger, LedgerEvent } from "../scheduling/ledger/ledger.ts";
import type { RecorderSinks } from "../workflows/runtime/fleet-recorder.ts";
import { unpackLedger } from "../scheduling/ledger/codec.ts";
import { fleetWorkflowId, RECORDER } from "../protocol/messages.ts";
import type { ConnectionConfig } from "./connection.ts";
import { workflowBundle } from "./workflow-bundle.ts";

export interface RecordedRun {
  readonly runId: string;
  /** The input of the run. */
  readonly ledger: Ledger;
  readonly events: readonly LedgerEvent[];
}

export type History = Parameters<typeof Worker.runReplayHistory>[1];

/** The runs of a fleet, newest first; the caller stops when it has found its answer. */
export async function* recordedRuns(
  client: Client,
  fleet: string,
  connection: Pick<ConnectionConfig, "workerPayloads">,
): AsyncGenerator<RecordedRun> {
  const id = fleetWorkflowId(fleet);
  let runId: string | undefined = (await client.workflow.getHandle(id).describe()).runId;
  while (runId !== undefined && runId !== "") {
    const history = await client.workflow.getHandle(id, runId).fetchHistory();
    yield { runId, ...(await recordedRun(history, connection.workerPayloads, id)) };
    runId =
      history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ??
      undefined;
  }
}

/** One run, replayed from its history; of payloads that are bound to their workflow its id must be told. */
export async function recordedRun(
  history: History,
  { dataConverter, isEncrypted }: ConnectionConfig["workerPayloads"],
  workflowId?: string,
): Promise<Omit<RecordedRun, "runId">> {
  let ledger: Ledger | undefined;
  const events: LedgerEvent[] = [];
  const sinks: InjectedSinks<RecorderSinks> = {
    recorder: {
      began: {
        fn: (_info, packed) => {
          ledger = unpackLedger(packed);
          // A restarted replay reports all events again.
          events.length = 0;
        },
        callDuringReplay: true,
      },
      folded: {
        fn: (_info, event) => {
          events.push(event);
        },
        callDuringReplay: true,
      },
    },
  };
  await Worker.runReplayHistory(
    {
      replayName: RECORDER,
      workflowBundle: workflowBundle(isEncrypted),
      dataConverter,
      sinks,
    },
    history,
    workflowId,
  );
  if (ledger === undefined) throw new Error("the replayed history is not one of a fleet");
  return { ledger, events };
}
