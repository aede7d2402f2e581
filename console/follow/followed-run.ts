/** @file One run of a fleet, read from its history and played: raw events in, the ledger after each workflow task out. */

import type { PayloadCodec } from "@temporalio/common";
import type { FleetInput } from "../../protocol/fleet.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { openRun, type Folded } from "./fleet-run.ts";
import {
  codecsFor,
  createTaskReader,
  decoded,
  msOf,
  valueOf,
  type HistoryEvent,
  type WorkflowTask,
} from "./workflow-task.ts";

/** A workflow task that has been folded. */
export interface FoldedTask {
  readonly task: WorkflowTask;
  readonly folded: readonly Folded[];
  readonly ledger: Ledger;
}

export interface FollowedRun {
  readonly runId: string;
  readonly startedAtMs: number;
  /** The run that continued as this one; undefined for the first. */
  readonly previousRunId: string | undefined;
  /** The packed ledger with which the run began, as JSON. */
  readonly carried: string;
  readonly ledger: () => Ledger;
  /**
   * Takes further events in their order. One task is folded when it is asked for, because each has ledgers of its own: whoever keeps none needs the memory of
   * one.
   */
  readonly read: (events: readonly HistoryEvent[]) => AsyncIterable<FoldedTask>;
  /** The input that the machine wants for the next run; undefined while this one goes on. */
  readonly next: () => FleetInput | undefined;
}

/** `first`: the first event of the run; `read` takes it too. */
export async function openFollowedRun(
  runId: string,
  first: HistoryEvent,
  shared: readonly PayloadCodec[],
): Promise<FollowedRun> {
  const started = first.workflowExecutionStartedEventAttributes;
  const codecs = codecsFor(shared, started?.workflowId);
  const payload = await decoded(started?.input?.payloads?.[0], codecs);
  // The fleet's workflow takes its input by the same promise.
  const input = valueOf(payload) as FleetInput;
  const startedAtMs = msOf(first.eventTime);
  const run = openRun({ runId, startedAtMs, input });
  const reader = createTaskReader(codecs);
  return {
    runId,
    startedAtMs,
    previousRunId: started?.continuedExecutionRunId || undefined,
    carried: JSON.stringify(input.ledger),
    ledger: run.ledger,
    next: run.next,
    async *read(events) {
      for await (const task of reader.read(events)) {
        const folded = run.fold(task);
        yield { task, folded, ledger: run.ledger() };
      }
    },
  };
}
