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
  const { payloadCodecs } = client.options.loadedDataConverter;
  const { namespace } = client.options;
  const context = workflowId === undefined ? undefined : workflowContext(workflowId, namespace);
  let plain = [...payloads];
  for (const codec of [...payloadCodecs].reverse()) plain = await codec.decode(plain, context);
  return plainPayloads(client, plain);
}

/** Of payloads that no codec has encoded. */
export function plainPayloads(client: Client, payloads: readonly Payload[]): unknown[] {
  const { payloadConverter } = client.options.loadedDataConverter;
  return payloads.map((payload) => payloadConverter.fromPayload<unknown>(payload));
}
