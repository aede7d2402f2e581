/**
 * @file What a fleet went through, from its histories in Temporal: each run is replayed and tells of every event that it folded.
 *
 * The fleet's own workflow code does it (workflows/fleet-recorder.ts), so nothing about the order of events is guessed. A run is
 * at most some 3,000 events of history; the runs before it are reached one by one, the newest first.
 */

import type { Client } from "@temporalio/client";
import { Worker, type InjectedSinks } from "@temporalio/worker";
import type { Ledger, LedgerEvent } from "../scheduling/ledger.ts";
import type { RecorderSinks } from "../workflows/fleet-recorder.ts";
import { fleetWorkflowId, RECORDER, unpackLedger } from "../workflows/messages.ts";
import type { ConnectionConfig } from "./connection.ts";
import { workflowBundle } from "./workflow-bundle.ts";

export interface RecordedRun {
  readonly runId: string;
  /** What it began with. */
  readonly ledger: Ledger;
  readonly events: readonly LedgerEvent[];
}

export type History = Parameters<typeof Worker.runReplayHistory>[1];

/** The runs of a fleet, the newest first; the caller stops when it has found what it looks for. */
export async function* recordedRuns(
  client: Client,
  fleet: string,
  connection: Pick<ConnectionConfig, "workerPayloads">,
): AsyncGenerator<RecordedRun> {
  const id = fleetWorkflowId(fleet);
  let runId: string | undefined = (await client.workflow.getHandle(id).describe()).runId;
  while (runId !== undefined && runId !== "") {
    const history = await client.workflow.getHandle(id, runId).fetchHistory();
    yield { runId, ...(await recordedRun(history, connection.workerPayloads)) };
    runId =
      history.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ??
      undefined;
  }
}

/** One run, as its history tells. */
export async function recordedRun(
  history: History,
  { dataConverter, isEncrypted }: ConnectionConfig["workerPayloads"],
): Promise<Omit<RecordedRun, "runId">> {
  let ledger: Ledger | undefined;
  const events: LedgerEvent[] = [];
  const sinks: InjectedSinks<RecorderSinks> = {
    recorder: {
      began: {
        fn: (_info, packed) => {
          ledger = unpackLedger(packed);
          // A replay that begins again tells all of it again.
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
  );
  if (ledger === undefined) throw new Error("the replayed history is of no fleet");
  return { ledger, events };
}
