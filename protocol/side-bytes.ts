/**
 * @file What a signal or an update takes of a history beside its value: further payloads, headers, the names of signal and sender.
 *
 * The server (1.31) bounds headers and names by the size of a message alone, 4 MiB, and ends a run whose history has more than 50 MiB: a run that counts
 * the value alone is ended by 13 signals. Texts count in UTF-8, and empty payloads by their frames, of which a message holds two million. In whole steps, so that
 * what honest words have counts as nothing, however it was encoded. Cost: O(fields), of characters beyond ASCII O(characters).
 */

import { utf8Length } from "../lib/utf8.ts";

interface Part {
  readonly data?: Uint8Array | null;
  readonly metadata?: Readonly<Record<string, Uint8Array>> | null;
}

export interface ArrivedParts {
  readonly payloads: readonly Part[] | null | undefined;
  readonly headers: Readonly<Record<string, Part>> | null | undefined;
  readonly names: readonly (string | null | undefined)[];
}

const STEP_BYTES = 4 * 1024;
/** Tag and length of a payload or an entry of a map, at least. */
const FRAME_BYTES = 2;

/** Without the first payload's data. Absent where it is less than a step. */
export function sideBytes({ payloads, headers, names }: ArrivedParts): {
  readonly sideBytes?: number;
} {
  let bytes = -(payloads?.[0]?.data?.length ?? 0);
  for (const part of payloads ?? []) bytes += bytesOf(part);
  for (const [key, part] of Object.entries(headers ?? {})) bytes += utf8Length(key) + bytesOf(part);
  for (const name of names) bytes += utf8Length(name ?? "");
  const counted = bytes - (bytes % STEP_BYTES);
  return counted === 0 ? {} : { sideBytes: counted };
}

function bytesOf({ data, metadata }: Part): number {
  let bytes = FRAME_BYTES + (data?.length ?? 0);
  for (const [key, value] of Object.entries(metadata ?? {}))
    bytes += FRAME_BYTES + utf8Length(key) + value.length;
  return bytes;
}
