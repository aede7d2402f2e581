/**
 * @file Encodes a whole payload (metadata and data) as the bytes of another one, in the format of Temporal's own codecs.
 *
 * So a codec of another language that knows `binary/zlib` or `binary/encrypted` reads ours.
 */

import type { Payload } from "@temporalio/common";
import proto from "@temporalio/proto";
import { SEAL_KEY, type Seal } from "../../protocol/seal.ts";

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

/** Marked as one that came so; without a seal nothing is left of a mark, because anybody may send one. */
export function withSeal(payload: Payload, seal?: Seal): Payload {
  const { metadata } = payload;
  if (seal === undefined && metadata?.[SEAL_KEY] === undefined) return payload;
  const { [SEAL_KEY]: _former, ...rest } = metadata ?? {};
  const marked = seal === undefined ? rest : { ...rest, [SEAL_KEY]: metadataBytes(seal) };
  return { ...payload, metadata: marked };
}

/** The inner payload with the mark of the one that it was in. */
export function sealedAs(outer: Payload, inner: Payload): Payload {
  const mark = metadataText(outer, SEAL_KEY);
  return withSeal(inner, mark === "bound" || mark === "unbound" ? mark : undefined);
}

export const ENCODING_KEY = "encoding";

export const metadataBytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/**
 * The handling of a damaged payload, which no configuration can make readable. Clients fail. A workflow must not fail, because
 * its task would be retried for ever; it gets the raw payload, which its converter turns into junk to refuse.
 */
export type OnDamage = "fail" | "pass";
