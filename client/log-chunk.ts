/**
 * @file Whether what came as a piece of a rank's output can be one: the agent that answers may be another's, or lie.
 *
 * What it says that a rank has written is its word. But a reader must come to an end: a piece with text moves it on, one without is where it waits or ends, and none is
 * larger than was asked for.
 */

import { z } from "zod";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { LogChunk, LogQuery } from "../protocol/agent-contract.ts";

const bytes = z.int().nonnegative();
const chunkSchema = z.object({
  text: z.string(),
  nextOffset: bytes,
  droppedBytes: bytes,
  isEnd: z.boolean(),
});

/** A character is never cut, and may be longer than what was asked for. */
const LONGEST_CHARACTER = 4;

/** Throws PAYLOAD_UNREADABLE. */
export function checkedChunk(answer: unknown, query: LogQuery): LogChunk {
  const parsed = chunkSchema.safeParse(answer);
  if (!parsed.success || !isPossible(parsed.data, query))
    throw new OrbweaverError(
      "PAYLOAD_UNREADABLE",
      `what ${query.host} says of rank ${String(query.rank)} of job ${query.jobId} from byte ${String(query.offset)} cannot be its output. Look at the host: another program may answer for its agent.`,
    );
  return parsed.data;
}

function isPossible(
  { text, nextOffset, droppedBytes }: LogChunk,
  { offset, maxBytes }: LogQuery,
): boolean {
  if (text.length > Math.max(maxBytes, LONGEST_CHARACTER)) return false;
  // Where the end is only the host knows.
  if (offset < 0) return true;
  const read = nextOffset - droppedBytes - offset;
  const isMoved = text === "" ? read >= 0 : read > 0;
  return isMoved && read <= maxBytes + LONGEST_CHARACTER;
}
