/**
 * @file Reads the output of one rank of one attempt, from its beginning or its last lines, once or until the rank ends.
 *
 * Offsets are bytes in the rank's whole output; a gap that rotation made is reported. The last N lines are found by reading
 * larger and larger pieces of the end, because only the agent knows where lines begin.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError } from "../domain/values/failure.ts";
import { pauseMs } from "./ask-again.ts";
import { isLost, type LogChunk, type LogQuery, type LogSession } from "./log-session.ts";

export interface RankLogOptions {
  /** Only the last lines of the present output; everything when absent. */
  readonly tailLines?: number;
  /** Follows the output until the rank has ended. */
  readonly isFollowed: boolean;
  /** Called with the number of bytes that rotation has dropped before the next text. */
  readonly onDropped?: (bytes: number) => void;
  /** Called once when a host that is followed does not answer any more: its agent may have ended, and the log goes on with the next one. */
  readonly onLost?: () => void;
  /** Whether the attempt has ended; a rank that its host does not know by then was never started. */
  readonly isOver: () => Promise<boolean>;
}

/** The rank and its host. */
export type RankPlace = Pick<LogQuery, "jobId" | "host" | "leaseId" | "rank" | "task">;

type Read = LogSession["read"];

const MAX_CHUNK_BYTES = 128 * 1024;
/** The agent answers a follower as soon as new output comes, and without text after this time. */
const FOLLOW_WAIT_MS = 10_000;
/** How long a host that is followed may be without an answer. */
const LOST_FOR_MS = 600_000;
/** It is asked at least so often. */
const LOST_PAUSE_MS = 5_000;
const FIRST_TAIL_BYTES = 16 * 1024;
const MAX_TAIL_BYTES = 16 * 1024 * 1024;

/** Yields texts in order; ends with the rank or, when it is not followed, at the end of the present output. */
export async function* readRankLog(
  session: LogSession,
  place: RankPlace,
  { tailLines, isFollowed, onDropped, onLost, isOver }: RankLogOptions,
): AsyncGenerator<string> {
  const read: Read = isFollowed
    ? (query) => readPatiently(session, query, { isOver, onLost })
    : session.read;
  let offset = 0;
  let tries = 0;
  if (isFollowed) await untilKnown(read, place, isOver);
  if (tailLines !== undefined) {
    const tail = await readTail(read, place, tailLines);
    if (tail.text !== "") yield tail.text;
    if (tail.isEnd || !isFollowed) return;
    offset = tail.nextOffset;
  }
  for (;;) {
    const waitMs = isFollowed ? FOLLOW_WAIT_MS : 0;
    const chunk = await read({ ...place, offset, maxBytes: MAX_CHUNK_BYTES, waitMs });
    if (chunk.droppedBytes > 0) onDropped?.(chunk.droppedBytes);
    if (chunk.text !== "") yield chunk.text;
    const isAllThere = chunk.text === "";
    offset = chunk.nextOffset;
    if (chunk.isEnd || (isAllThere && !isFollowed)) return;
    // An agent with many followers lets only some of them wait; the others are answered at once.
    if (isAllThere) await sleep(pauseMs(tries));
    tries = isAllThere ? tries + 1 : 0;
  }
}

/** Waits for a host that does not answer until the attempt has ended. */
async function readPatiently(
  session: LogSession,
  query: LogQuery,
  {
    isOver,
    onLost,
  }: { readonly isOver: RankLogOptions["isOver"]; readonly onLost: RankLogOptions["onLost"] },
): Promise<LogChunk> {
  const askedMs = performance.now();
  for (let tries = 0; ; tries += 1) {
    // Read the end first, so that the last output of an attempt that has ended meanwhile is asked for once more.
    const wasOver = tries > 0 && (await isOver().catch(() => false));
    try {
      return await session.read(query);
    } catch (error) {
      const isLate = performance.now() - askedMs > LOST_FOR_MS;
      if (!isLost(error) || wasOver || isLate) throw error;
      if (tries === 0) onLost?.();
    }
    await sleep(pauseMs(tries, LOST_PAUSE_MS));
  }
}

/** A gang with a grant is unknown to its hosts until it is prepared. */
async function untilKnown(
  read: Read,
  place: RankPlace,
  isOver: () => Promise<boolean>,
): Promise<void> {
  for (let tries = 0; ; tries += 1) {
    // Read the end first, so that a run that began and ended in between is found.
    const wasOver = await isOver();
    try {
      await read({ ...place, offset: 0, maxBytes: 1, waitMs: 0 });
      return;
    } catch (error) {
      const isUnknown = error instanceof OrbweaverError && error.code === "RUN_UNKNOWN";
      if (!isUnknown || wasOver) throw error;
    }
    await sleep(pauseMs(tries));
  }
}

interface Tail {
  readonly text: string;
  readonly nextOffset: number;
  readonly isEnd: boolean;
}

async function readTail(read: Read, place: RankPlace, lines: number): Promise<Tail> {
  for (let windowBytes = FIRST_TAIL_BYTES; ; windowBytes *= 4) {
    const tail = await readWindow(read, place, windowBytes);
    const cut = lastLines(tail.text, lines);
    if (tail.isWhole || cut.isEnough || windowBytes >= MAX_TAIL_BYTES) {
      return { text: cut.text, nextOffset: tail.nextOffset, isEnd: tail.isEnd };
    }
  }
}

/** The last `windowBytes` of the present output, in chunks; `isWhole` when nothing precedes them. */
async function readWindow(
  read: Read,
  place: RankPlace,
  windowBytes: number,
): Promise<Tail & { readonly isWhole: boolean }> {
  const maxBytes = MAX_CHUNK_BYTES;
  let chunk: LogChunk = await read({ ...place, offset: -windowBytes, maxBytes, waitMs: 0 });
  const isWhole = chunk.nextOffset < windowBytes || chunk.droppedBytes > 0;
  let text = chunk.text;
  while (!chunk.isEnd && text.length < MAX_TAIL_BYTES) {
    const { nextOffset } = chunk;
    chunk = await read({ ...place, offset: nextOffset, maxBytes, waitMs: 0 });
    if (chunk.text === "") break;
    text += chunk.text;
  }
  return { text, nextOffset: chunk.nextOffset, isEnd: chunk.isEnd, isWhole };
}

/** The last lines of a text; an unfinished last line counts as one. `isEnough` when a line precedes them. */
export function lastLines(
  text: string,
  lines: number,
): { readonly text: string; readonly isEnough: boolean } {
  if (lines === 0) return { text: "", isEnough: true };
  // The line break at which the wanted text begins, except the one that ends the last line.
  let at = text.endsWith("\n") ? text.length - 1 : text.length;
  for (let found = 0; found < lines; found += 1) {
    at = at === 0 ? -1 : text.lastIndexOf("\n", at - 1);
    if (at === -1) return { text, isEnough: false };
  }
  return { text: text.slice(at + 1), isEnough: true };
}
