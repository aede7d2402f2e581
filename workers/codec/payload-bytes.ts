/**
 * @file A payload inside a payload: the whole of one (metadata and data) as the bytes of another, as Temporal's own codecs do it.
 *
 * The encodings are theirs too, so that a codec of another language that knows `binary/zlib` or `binary/encrypted` reads ours.
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
 * What to do with a payload that is damaged, and so stays unreadable whatever is configured. Clients fail. A workflow must
 * not: its task would be tried again for ever; it gets the payload as it came, which its converter turns into junk to refuse.
 */
export type OnDamage = "fail" | "pass";
