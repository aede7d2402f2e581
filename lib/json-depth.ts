/** @file How deep a JSON text nests, read from its bytes: before it is parsed, which costs forty times as much where it consists of brackets. */

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [OPEN_LIST, CLOSE_LIST, OPEN_MAP, CLOSE_MAP] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Whether lists and maps lie in each other in more than so many levels. Of bytes that are no JSON either answer may come. Cost: O(bytes); no stack. */
export function isTextDeeperThan(utf8: Uint8Array, levels: number): boolean {
  // Each level takes two brackets.
  if (utf8.length <= 2 * levels) return false;
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < utf8.length; at += 1) {
    const byte = utf8[at];
    if (byte === QUOTE) isQuoted = !isQuoted;
    else if (isQuoted) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === OPEN_LIST || byte === OPEN_MAP) {
      depth += 1;
      if (depth > levels) return true;
    } else if (byte === CLOSE_LIST || byte === CLOSE_MAP) depth -= 1;
  }
  return false;
}
