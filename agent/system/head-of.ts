/** @file Reads the beginning of a file whose length nobody promises. Loaded by the shim, so it needs nothing but Node. */

import { closeSync, openSync, readSync } from "node:fs";

const FIRST_BYTES = 16 * 1024;

/** At most so many bytes, from the first on; fails as `openSync` does. */
export function headOf(path: string, mostBytes: number): Buffer {
  const file = openSync(path, "r");
  try {
    let head = Buffer.allocUnsafe(Math.min(FIRST_BYTES, mostBytes));
    let size = 0;
    for (;;) {
      const read = readSync(file, head, size, head.length - size, null);
      size += read;
      if (read === 0 || size === mostBytes) return head.subarray(0, size);
      const more = Math.min(size, mostBytes - size);
      if (size === head.length) head = Buffer.concat([head, Buffer.allocUnsafe(more)]);
    }
  } finally {
    closeSync(file);
  }
}
