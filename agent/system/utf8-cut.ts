/** @file Where UTF-8 text may be cut without splitting a character. Loaded by the shim, so it needs nothing but Node. */

const LONGEST_BYTES = 4;

/** Bytes at the end that begin a character and do not finish it; 0 to 3. */
export function unfinishedTail(bytes: Uint8Array): number {
  for (let back = 1; back < LONGEST_BYTES && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (isContinuation(byte)) continue;
    return characterBytes(byte) > back ? back : 0;
  }
  return 0;
}

/** Bytes at the start that finish a character which began before; 0 to 3. */
export function orphanedHead(bytes: Uint8Array): number {
  let count = 0;
  while (count < LONGEST_BYTES - 1 && count < bytes.length && isContinuation(bytes[count] ?? 0))
    count += 1;
  return count;
}

const isContinuation = (byte: number): boolean => (byte & 0b1100_0000) === 0b1000_0000;

/** Length of the character that starts with this byte; 1 for what can start none. */
function characterBytes(byte: number): number {
  if (byte >= 0b1111_0000 && byte < 0b1111_1000) return 4;
  if (byte >= 0b1110_0000) return byte < 0b1111_0000 ? 3 : 1;
  return byte >= 0b1100_0000 ? 2 : 1;
}
