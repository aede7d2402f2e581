/**
 * @file Brings a word to the run of a job: as a signal, or as an update where the run hears no further signal.
 *
 * Temporal takes 10,000 signals for a run. A job keeps its run while it holds GPUs, so junk from outside may use them up; grants and orders
 * must reach it all the same. An update needs a worker to answer, so it has a bound of its own (docs/decisions/0094-words-to-deaf-jobs.md).
 */

import { log } from "@temporalio/activity";
import type { Client, WorkflowHandle } from "@temporalio/client";
import type { SignalDefinition } from "@temporalio/common";
import { wordUpdate } from "../protocol/messages.ts";
import { hearsNoSignal } from "../protocol/signal-limit.ts";

const ANSWER_WITHIN_MS = 5_000;

/** Fails as the signal does, or the update: the job is gone, or what became of the word is unknown. */
export async function tellJob<Value>(
  { client, run }: { readonly client: Client; readonly run: WorkflowHandle },
  signal: SignalDefinition<[Value]> | SignalDefinition<[]>,
  ...values: [] | [Value]
): Promise<void> {
  try {
    await run.signal(signal.name, ...values);
  } catch (error) {
    if (!hearsNoSignal(error)) throw error;
    const [value] = values;
    const word = { signal: signal.name, ...(value !== undefined && { value }) };
    log.info("a job hears no further signal, and is told by an update", {
      jobId: run.workflowId,
      signal: signal.name,
    });
    await client.withAbortSignal(AbortSignal.timeout(ANSWER_WITHIN_MS), () =>
      run.executeUpdate(wordUpdate, { args: [word] }),
    );
  }
}
