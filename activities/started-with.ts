/** @file What a closed run of a workflow was started with, and the signals that it has received: read from its history, which is all that is left. */

import type { Client } from "@temporalio/client";
import { defaultPayloadConverter, type Payload } from "@temporalio/common";
import { decodeArrayFromPayloads } from "@temporalio/common/lib/internal-non-workflow/index.js";

export interface ClosedRun {
  readonly workflowId: string;
  readonly runId: string;
}

/** Undefined when nothing can be read there. */
export async function startedWith(client: Client, run: ClosedRun): Promise<unknown> {
  const { history } = await historyOf(client, run, { maximumPageSize: 1 });
  const { input } = history?.events?.[0]?.workflowExecutionStartedEventAttributes ?? {};
  const [first] = await decoded(client, input?.payloads);
  return first;
}

interface ReceivedSignal {
  readonly signal: string;
  readonly value: unknown;
}

/** In their order, a page of the history at a time. */
export async function* signalsOf(
  client: Client,
  run: ClosedRun,
): AsyncIterable<readonly ReceivedSignal[]> {
  let nextPageToken: Uint8Array | undefined;
  do {
    const page = await historyOf(client, run, {
      maximumPageSize: 200,
      ...(nextPageToken !== undefined && { nextPageToken }),
    });
    const received: ReceivedSignal[] = [];
    for (const event of page.history?.events ?? []) {
      const { signalName, input } = event.workflowExecutionSignaledEventAttributes ?? {};
      if (typeof signalName !== "string") continue;
      const [value] = await decoded(client, input?.payloads);
      received.push({ signal: signalName, value });
    }
    yield received;
    const token = page.nextPageToken;
    nextPageToken = token !== null && token.length > 0 ? token : undefined;
  } while (nextPageToken !== undefined);
}

const historyOf = (
  client: Client,
  { workflowId, runId }: ClosedRun,
  page: { readonly maximumPageSize: number; readonly nextPageToken?: Uint8Array },
) =>
  client.workflowService.getWorkflowExecutionHistory({
    namespace: client.options.namespace,
    execution: { workflowId, runId },
    ...page,
  });

const decoded = (
  client: Client,
  payloads: Payload[] | null | undefined,
): Promise<readonly unknown[]> =>
  decodeArrayFromPayloads(
    client.options.loadedDataConverter ?? { payloadConverter: defaultPayloadConverter },
    payloads,
  );
