/** @file What a closed run of a workflow was started with, and the signals that it has received: read from its history, which is all that is left. */

import type { Client } from "@temporalio/client";
import {
  defaultDataConverter,
  defaultPayloadConverter,
  type LoadedDataConverter,
  type Payload,
} from "@temporalio/common";
import {
  decode,
  decodeArrayFromPayloads,
} from "@temporalio/common/lib/internal-non-workflow/index.js";
import { PROOF_HEADER } from "../protocol/messages.ts";

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

export interface ReceivedSignal {
  readonly signal: string;
  /** Its value; throws where that is none. */
  readonly read: () => unknown;
  /** Of who sent it (`protocol/word-proof.ts`), as it came; absent where none came. */
  readonly proof?: string;
  /** The value's bytes, which the proof covers. */
  readonly bytes: Uint8Array;
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
      const { signalName, input, header } = event.workflowExecutionSignaledEventAttributes ?? {};
      if (typeof signalName !== "string") continue;
      const { payloadConverter, payloadCodecs } = converterOf(client);
      const [payload] = await decode(payloadCodecs, input?.payloads?.slice(0, 1) ?? []);
      const carried = header?.fields?.[PROOF_HEADER];
      // No codec touches headers.
      const proof = carried ? defaultPayloadConverter.fromPayload<unknown>(carried) : undefined;
      received.push({
        signal: signalName,
        read: () => payload && payloadConverter.fromPayload(payload),
        ...(typeof proof === "string" && { proof }),
        bytes: payload?.data ?? new Uint8Array(),
      });
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
): Promise<readonly unknown[]> => decodeArrayFromPayloads(converterOf(client), payloads);

const converterOf = ({ options }: Client): LoadedDataConverter =>
  options.loadedDataConverter ?? defaultDataConverter;
