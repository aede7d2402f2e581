/** @file Whole numbers as texts of a fixed width in base 64, and back. */

import { DIGITS, digitAt } from "./base64-digits.ts";

/** Undefined where the number is none that the width can hold. */
export function fixedText(value: number, width: number): string | undefined {
  if (!Number.isSafeInteger(value) || value < 0 || Object.is(value, -0)) return undefined;
  let text = "";
  let rest = value;
  for (let place = 0; place < width; place += 1) {
    text = DIGITS.charAt(rest % 64) + text;
    rest = Math.floor(rest / 64);
  }
  return rest === 0 ? text : undefined;
}

/** Of the characters from `from` to before `to`. */
export function fixedNumber(text: string, from = 0, to = text.length): number {
  let value = 0;
  for (let place = from; place < to; place += 1) value = value * 64 + digitAt(text, place);
  return value;
}
