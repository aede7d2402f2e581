/**
 * @file The beginning of a request's prompt as a chain of hashes, so that requests with a common beginning are known without reading them.
 *
 * Engines keep keys and values of a prompt's beginning, in blocks, for the next request that begins alike. The bytes from the key `messages`, `prompt`, `text`
 * or `inputs` on are hashed in blocks, each with the hash before it; two bodies share as many hashes as whole blocks at their beginning. Nothing is
 * parsed, whatever the body's size: only the first bytes are looked at. Cost: O(`MOST_BLOCKS` × `BLOCK_BYTES`), some 50 µs.
 */

import { textHash } from "../../lib/text-hash.ts";

/** About 64 tokens of English. */
const BLOCK_BYTES = 256;
const MOST_BLOCKS = 64;
/** In which the key must begin; clients put it among the first. */
const SEARCHED_BYTES = 4_096;
const KEYS = /"(?:messages|prompt|text|inputs)"\s*:/;

/** Hashes of its whole blocks, from the first; none for a body that is shorter than one. */
export function promptBlocks(body: Uint8Array): readonly string[] {
  const head = latin(body.subarray(0, SEARCHED_BYTES));
  const start = Math.max(0, head.search(KEYS));
  const blocks: string[] = [];
  let before = "";
  for (let at = start; blocks.length < MOST_BLOCKS; at += BLOCK_BYTES) {
    const end = at + BLOCK_BYTES;
    if (end > body.length) break;
    before = textHash(latin(body.subarray(at, end)), before);
    blocks.push(before);
  }
  return blocks;
}

/** A character a byte, so that blocks cut no character in two. */
const latin = (bytes: Uint8Array): string => String.fromCharCode(...bytes);
