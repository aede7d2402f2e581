/** @file Decodes values from raw payloads with the client's data converter: codecs in reverse order, then the converter. */

import type { Client } from "@temporalio/client";
import type { Payload } from "@temporalio/common";

export async function decodedPayloads(
  client: Client,
  payloads: readonly Payload[],
): Promise<unknown[]> {
  const { payloadCodecs, payloadConverter } = client.options.loadedDataConverter;
  let plain = [...payloads];
  for (const codec of [...payloadCodecs].reverse()) plain = await codec.decode(plain);
  return plain.map((payload) => payloadConverter.fromPayload<unknown>(payload));
}
