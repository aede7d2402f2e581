/**
 * @file Decodes values from raw payloads with the client's data converter: codecs in reverse order, then the converter.
 *
 * `workflowId`: whose payloads they are, so that none is read that was encrypted for another workflow.
 */

import type { Client } from "@temporalio/client";
import type { Payload, SerializationContext } from "@temporalio/common";

const workflowContext = (workflowId: string, namespace: string): SerializationContext => ({
  type: "workflow",
  namespace,
  workflowId,
});

export async function decodedPayloads(
  client: Client,
  payloads: readonly Payload[],
  workflowId?: string,
): Promise<unknown[]> {
  const { payloadCodecs, payloadConverter } = client.options.loadedDataConverter;
  const { namespace } = client.options;
  const context = workflowId === undefined ? undefined : workflowContext(workflowId, namespace);
  let plain = [...payloads];
  for (const codec of [...payloadCodecs].reverse()) plain = await codec.decode(plain, context);
  return plain.map((payload) => payloadConverter.fromPayload<unknown>(payload));
}
