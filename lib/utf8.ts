/** @file A text in UTF-8, and its size, where neither `Buffer` nor `TextEncoder` exists. */

const BEYOND_ASCII = /[\u0080-\uffff]/;

export function utf8Length(text: string): number {
  if (!BEYOND_ASCII.test(text)) return text.length;
  let bytes = 0;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) bytes += 1;
    else if (unit < 0x800) bytes += 2;
    else if (isHighSurrogate(unit) && isLowSurrogate(text.charCodeAt(index + 1))) {
      bytes += 4;
      index += 1;
    } else bytes += 3;
  }
  return bytes;
}

const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

/** By the bytes that follow. */
const LEADS = [0, 0xc0, 0xe0, 0xf0];

/** Lone halves of pairs, which JSON escapes, become what they are. */
export function utf8Bytes(text: string): Uint8Array {
  const bytes = new Uint8Array(utf8Length(text));
  let at = 0;
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    if (point < 0x80) {
      bytes[at++] = point;
      continue;
    }
    const more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    bytes[at++] = (LEADS[more] ?? 0) | (point >> (6 * more));
    for (let left = more - 1; left >= 0; left -= 1)
      bytes[at++] = 0x80 | ((point >> (6 * left)) & 0x3f);
  }
  return bytes;
}
