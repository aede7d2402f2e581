/** @file Reads the history of one workflow page by page, and waits for what comes; a read wakes no worker. */

import type { Client } from "@temporalio/client";
import type { HistoryEvent } from "./workflow-task.ts";

/** How a run's history ended: with its next run, in another way, or not yet. */
export interface RunEnd {
  readonly nextRunId: string | undefined;
}

/** A page of history takes this long when nothing happens; the server ends the wait before. */
const WAIT_MS = 70_000;

/** Pages of a run's history until the run ends; an empty page where nothing has happened for long. */
export async function* pagesOf({
  client,
  signal,
  execution,
  isFollowed = true,
}: {
  readonly client: Client;
  readonly signal: AbortSignal;
  readonly execution: { readonly workflowId: string; readonly runId: string };
  /** Whether to wait for what comes; else the pages end with what there is. */
  readonly isFollowed?: boolean;
}): AsyncGenerator<readonly HistoryEvent[]> {
  const { namespace } = client.options;
  let nextPageToken: Uint8Array | undefined;
  for (;;) {
    const request = {
      namespace,
      execution,
      waitNewEvent: isFollowed,
      ...(nextPageToken !== undefined && { nextPageToken }),
    };
    const page = await abortable(signal, (call) =>
      client.withAbortSignal(call, () =>
        client.withDeadline(Date.now() + WAIT_MS, () =>
          client.workflowService.getWorkflowExecutionHistory(request),
        ),
      ),
    );
    yield page.history?.events ?? [];
    if (page.nextPageToken.length === 0) return;
    nextPageToken = page.nextPageToken;
  }
}

export interface RunNow {
  readonly runId: string;
  /** How many events the run has. */
  readonly length: number;
}

/** `execution.runId`: empty for the newest run. */
export async function runNow({
  client,
  signal,
  execution,
}: {
  readonly client: Client;
  readonly signal: AbortSignal;
  readonly execution: { readonly workflowId: string; readonly runId: string };
}): Promise<RunNow> {
  const { namespace } = client.options;
  const { workflowExecutionInfo } = await abortable(signal, (call) =>
    client.withAbortSignal(call, () =>
      client.withDeadline(Date.now() + WAIT_MS, () =>
        client.workflowService.describeWorkflowExecution({ namespace, execution }),
      ),
    ),
  );
  return {
    runId: workflowExecutionInfo?.execution?.runId ?? "",
    length: Number(workflowExecutionInfo?.historyLength ?? 0),
  };
}

/** A signal for one call, because the client never takes its listeners off again. */
async function abortable<Value>(
  signal: AbortSignal,
  work: (call: AbortSignal) => Promise<Value>,
): Promise<Value> {
  // Nothing tells of an abort that is over.
  signal.throwIfAborted();
  const call = new AbortController();
  const stop = (): void => call.abort();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await work(call.signal);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

export function endOf(events: readonly HistoryEvent[]): RunEnd | undefined {
  const last = events.at(-1);
  const continued = last?.workflowExecutionContinuedAsNewEventAttributes;
  if (continued) return { nextRunId: continued.newExecutionRunId ?? undefined };
  const isOver =
    last?.workflowExecutionTerminatedEventAttributes ??
    last?.workflowExecutionCanceledEventAttributes ??
    last?.workflowExecutionFailedEventAttributes ??
    last?.workflowExecutionTimedOutEventAttributes ??
    last?.workflowExecutionCompletedEventAttributes;
  return isOver ? { nextRunId: undefined } : undefined;
}

/** gRPC: no such workflow, or no such id. */
const GONE_CODES: readonly unknown[] = [3, 5];

/** Whether the server, or the call to it, failed: what was read had no part in it. gRPC's codes are numbers. */
export const isServersFault = (error: unknown): boolean =>
  error instanceof Error && "code" in error && typeof error.code === "number";

/** Whether a history is not there, or no more. */
export const isGone = (error: unknown): boolean =>
  error instanceof Error && "code" in error && GONE_CODES.includes(error.code);
