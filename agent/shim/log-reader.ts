/**
 * @file Reads a rank's output by offsets that count from its very first byte, although old parts are dropped meanwhile.
 *
 * Text is cut between characters. Bytes that rotation has dropped are counted, never silently skipped. See `rank-log.ts`.
 */

import { join } from "node:path";
import { partName, partStarts } from "./rank-log.ts";
import type { Files } from "../ports/files.ts";
import { orphanedHead, unfinishedTail } from "../system/utf8-cut.ts";

export interface LogSlice {
  readonly text: string;
  readonly nextOffset: number;
  readonly droppedBytes: number;
  /** Length of the whole output so far. */
  readonly totalBytes: number;
}

export interface LogRange {
  /** Negative counts from the end. */
  readonly offset: number;
  readonly maxBytes: number;
  /** No output will follow: an unfinished character at the very end is returned too. */
  readonly isFinal: boolean;
}

/** One character must fit, or a reader would never get past it. */
const LEAST_BYTES = 4;
const ATTEMPTS = 5;

/** The output at `offset`; none when the rank has not written that far. */
export function readLog(files: Files, dir: string, range: LogRange): LogSlice {
  for (let attempt = 1; ; attempt += 1) {
    const slice = readOnce({ files, dir }, range, { isLast: attempt === ATTEMPTS });
    if (slice !== undefined) return slice;
  }
}

/** Undefined when a part was dropped between the look at the folder and the read: look again. */
function readOnce(
  { files, dir }: { readonly files: Files; readonly dir: string },
  { offset, maxBytes, isFinal }: LogRange,
  { isLast }: { readonly isLast: boolean },
): LogSlice | undefined {
  const starts = partStarts(files, dir);
  const lastStart = starts.at(-1);
  if (lastStart === undefined)
    return { text: "", nextOffset: Math.max(0, offset), droppedBytes: 0, totalBytes: 0 };
  const totalBytes = lastStart + (files.stat(join(dir, partName(lastStart)))?.sizeBytes ?? 0);
  const asked = offset < 0 ? Math.max(0, totalBytes + offset) : offset;
  const from = Math.max(asked, starts[0] ?? 0);
  const bytes = Buffer.alloc(
    Math.max(0, Math.min(Math.max(maxBytes, LEAST_BYTES), totalBytes - from)),
  );
  let filled = 0;
  for (const [index, start] of starts.entries()) {
    const end = starts[index + 1] ?? totalBytes;
    const at = from + filled;
    if (at < start || at >= end || filled === bytes.length) continue;
    const got = files.readRange(join(dir, partName(start)), {
      position: at - start,
      length: bytes.length - filled,
    });
    if (got === undefined && !isLast) return undefined;
    filled += got?.copy(bytes, filled) ?? 0;
  }
  const read = bytes.subarray(0, filled);
  // Only a place that was not asked for by its exact offset can lie inside a character.
  const head = offset < 0 || from > asked ? orphanedHead(read) : 0;
  const isAtEnd = from + filled >= totalBytes;
  const tail = isFinal && isAtEnd ? 0 : unfinishedTail(read);
  return {
    text: read.subarray(head, Math.max(head, filled - tail)).toString("utf8"),
    nextOffset: from + Math.max(head, filled - tail),
    droppedBytes: Math.max(0, from - asked),
    totalBytes,
  };
}

/** What stands for them where text leaves the log, which only its readers may see, for reports and histories. */
const TOKENS = /\b(Bearer )[\w.~+/=-]+/g;

/** The last lines, at most `maxBytes`, without tokens; a line whose start is cut off is left out unless it is the only one. */
export function lastLines(files: Files, dir: string, maxBytes: number): string {
  const { text, totalBytes } = readLog(files, dir, { offset: -maxBytes, maxBytes, isFinal: true });
  const firstBreak = text.indexOf("\n");
  const isCut = totalBytes > maxBytes && firstBreak >= 0 && firstBreak < text.length - 1;
  return (isCut ? text.slice(firstBreak + 1) : text).replace(TOKENS, "$1***");
}
