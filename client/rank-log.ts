/**
 * @file Reads what one rank of one attempt wrote, from its beginning or its last lines, once or for as long as it runs.
 *
 * Offsets are bytes in the rank's whole output; what rotation has dropped is told, not hidden. The last N lines are
 * found by reading ever larger pieces of the end, because only the agent knows where lines begin.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError } from "../domain/failure.ts";
import type { LogChunk, LogQuery, LogSession } from "./log-session.ts";

export interface RankLogOptions {
  /** Only the last lines of what is there; everything when absent. */
  readonly tailLines?: number;
  /** Go on until the rank has ended. */
  readonly isFollowed: boolean;
  /** Called with the number of bytes that rotation has dropped before the text that comes next. */
  readonly onDropped?: (bytes: number) => void;
  /** Whether the attempt has ended: a rank that its host does not know by then was never started. */
  readonly isOver: () => Promise<boolean>;
}

/** Which rank, where. */
export type RankPlace = Pick<LogQuery, "jobId" | "host" | "leaseId" | "rank" | "task">;

const MAX_CHUNK_BYTES = 128 * 1024;
/** The agent answers a follower at once when something new comes, and with nothing after this long. */
const FOLLOW_WAIT_MS = 10_000;
/** An agent with many followers lets only some of them wait; the others ask again after this. */
const ASK_AGAIN_MS = 500;
const FIRST_TAIL_BYTES = 16 * 1024;
const MAX_TAIL_BYTES = 16 * 1024 * 1024;

/** Yields texts in order; ends with the rank, or at the end of what is there when it is not followed. */
export async function* readRankLog(
  session: LogSession,
  place: RankPlace,
  { tailLines, isFollowed, onDropped, isOver }: RankLogOptions,
): AsyncGenerator<string> {
  let offset = 0;
  if (isFollowed) await untilKnown(session, place, isOver);
  if (tailLines !== undefined) {
    const tail = await readTail(session, place, tailLines);
    if (tail.text !== "") yield tail.text;
    if (tail.isEnd || !isFollowed) return;
    offset = tail.nextOffset;
  }
  for (;;) {
    const chunk = await session.read({
      ...place,
      offset,
      maxBytes: MAX_CHUNK_BYTES,
      waitMs: isFollowed ? FOLLOW_WAIT_MS : 0,
    });
    if (chunk.droppedBytes > 0) onDropped?.(chunk.droppedBytes);
    if (chunk.text !== "") yield chunk.text;
    const isAllThere = chunk.nextOffset === offset;
    offset = chunk.nextOffset;
    if (chunk.isEnd || (isAllThere && !isFollowed)) return;
    if (isAllThere) await sleep(ASK_AGAIN_MS);
  }
}

/** A gang that is granted but not prepared yet is unknown to its hosts. */
async function untilKnown(
  session: LogSession,
  place: RankPlace,
  isOver: () => Promise<boolean>,
): Promise<void> {
  for (;;) {
    // The end is looked at first: a run that began and ended in between is then known.
    const wasOver = await isOver();
    try {
      await session.read({ ...place, offset: 0, maxBytes: 1, waitMs: 0 });
      return;
    } catch (error) {
      const isUnknown = error instanceof OrbweaverError && error.code === "RUN_UNKNOWN";
      if (!isUnknown || wasOver) throw error;
    }
    await sleep(ASK_AGAIN_MS);
  }
}

interface Tail {
  readonly text: string;
  readonly nextOffset: number;
  readonly isEnd: boolean;
}

async function readTail(session: LogSession, place: RankPlace, lines: number): Promise<Tail> {
  for (let windowBytes = FIRST_TAIL_BYTES; ; windowBytes *= 4) {
    const tail = await readWindow(session, place, windowBytes);
    const cut = lastLines(tail.text, lines);
    if (tail.isWhole || cut.isEnough || windowBytes >= MAX_TAIL_BYTES) {
      return { text: cut.text, nextOffset: tail.nextOffset, isEnd: tail.isEnd };
    }
  }
}

/** The last `windowBytes` of what is there, in chunks; `isWhole` when nothing lies before them. */
async function readWindow(
  session: LogSession,
  place: RankPlace,
  windowBytes: number,
): Promise<Tail & { readonly isWhole: boolean }> {
  const maxBytes = MAX_CHUNK_BYTES;
  let chunk: LogChunk = await session.read({ ...place, offset: -windowBytes, maxBytes, waitMs: 0 });
  const isWhole = chunk.nextOffset < windowBytes || chunk.droppedBytes > 0;
  let text = chunk.text;
  while (!chunk.isEnd && text.length < MAX_TAIL_BYTES) {
    const { nextOffset } = chunk;
    chunk = await session.read({ ...place, offset: nextOffset, maxBytes, waitMs: 0 });
    if (chunk.nextOffset === nextOffset) break;
    text += chunk.text;
  }
  return { text, nextOffset: chunk.nextOffset, isEnd: chunk.isEnd, isWhole };
}

/** The last lines of a text; an unfinished last line counts as one. `isEnough` when a line lies before them. */
export function lastLines(
  text: string,
  lines: number,
): { readonly text: string; readonly isEnough: boolean } {
  if (lines === 0) return { text: "", isEnough: true };
  // The line break at which the text of interest begins; of the last line that is not its own end.
  let at = text.endsWith("\n") ? text.length - 1 : text.length;
  for (let found = 0; found < lines; found += 1) {
    at = at === 0 ? -1 : text.lastIndexOf("\n", at - 1);
    if (at === -1) return { text, isEnough: false };
  }
  return { text: text.slice(at + 1), isEnough: true };
}
