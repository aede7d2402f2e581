/**
 * @file Takes the path and the body of a request in; the body within a bound of its own and one that it shares with the other bodies.
 *
 * Chunks are copied into one buffer, because a chunk costs hundreds of bytes beside its own: a body holds at most twice its bytes
 * (thrice while its buffer grows), and `LEAST_BYTES`, however small its chunks are.
 */

import type { IncomingMessage } from "node:http";

export interface Intake {
  readonly bodyBytes: number;
  /** Counts bytes among those of all bodies; false when these would be too many. */
  readonly take: (bytes: number) => boolean;
}

/** Undefined of what is no path, such as `//[`. */
export function pathOf({ url = "/" }: Pick<IncomingMessage, "url">): URL | undefined {
  try {
    return new URL(url, "http://service");
  } catch {
    return undefined;
  }
}

const LEAST_BYTES = 4_096;
const NONE = new Uint8Array(0);

/** Rejects when the client hangs up. What is refused is not read to its end. */
export function bodyOf(
  request: IncomingMessage,
  { bodyBytes, take }: Intake,
): Promise<Uint8Array | "too large" | "no room"> {
  const declared = Number(request.headers["content-length"] ?? bodyBytes);
  let body: Uint8Array<ArrayBuffer> = NONE;
  let bytes = 0;
  const room = (needed: number): Uint8Array<ArrayBuffer> => {
    if (needed <= body.length) return body;
    const size = Math.max(needed, Math.min(Math.max(2 * body.length, LEAST_BYTES), declared));
    const larger = new Uint8Array(size);
    larger.set(body.subarray(0, bytes));
    return larger;
  };
  return new Promise((resolve, reject) => {
    request.on("data", (chunk: Buffer) => {
      const needed = bytes + chunk.length;
      const trouble = needed > bodyBytes ? "too large" : take(chunk.length) ? undefined : "no room";
      if (trouble === undefined) {
        body = room(needed);
        body.set(chunk, bytes);
        bytes = needed;
      } else {
        request.pause();
        resolve(trouble);
      }
    });
    request.once("end", () => {
      // Memory of its own, which a thread can be handed.
      resolve(body.length === bytes ? body : body.slice(0, bytes));
      body = NONE;
    });
    request.once("error", reject);
    request.once("close", () => reject(new Error("the client has hung up")));
  });
}
