/** @file Takes away a folder into which something that was just killed, or ends by itself, may still write. */

import { rmSync } from "node:fs";

const MOST_TRIES = 300;
const PAUSE_MS = 100;

/** What comes while it removes leaves a folder that is not empty; Node's own retries do not look into it again. Throws after half a minute. */
export function removeFolder(path: string): void {
  const clock = new Int32Array(new SharedArrayBuffer(4));
  for (let left = MOST_TRIES; ; left -= 1) {
    try {
      rmSync(path, { recursive: true, force: true });
      return;
    } catch (error) {
      if (left === 1) throw error;
      Atomics.wait(clock, 0, 0, PAUSE_MS);
    }
  }
}
