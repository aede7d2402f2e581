/**
 * @file Encodes a whole payload (metadata and data) as the bytes of another one, in the format of Temporal's own codecs.
 *
 * So a codec of another language that knows `binary/zlib` or `binary/encrypted` reads ours.
 */

import type { Payload } from "@temporalio/common";
import proto from "@temporalio/proto";

const { Payload: Message } = proto.temporal.api.common.v1;

export const bytesOf = (payload: Payload): Uint8Array => Message.encode(payload).finish();

/** Throws on bytes that are no payload. */
export function payloadOf(bytes: Uint8Array): Payload {
  const { metadata, data } = Message.decode(bytes);
  return { metadata, data };
}

/** The text of one entry of the metadata; undefined when it is not there. */
export function metadataText(payload: Payload, key: string): string | undefined {
  const bytes = payload.metadata?.[key];
  return bytes === undefined || bytes === null ? undefined : new TextDecoder().decode(bytes);
}

export const ENCODING_KEY = "encoding";

export const metadataBytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/**
 * The handling of a damaged payload, which no configuration can make readable. Clients fail. A workflow must not fail, because
 * its task would be retried for ever; it gets the raw payload, which its converter turns into junk to refuse.
 */
export type OnDamage = "fail" | "pass";
