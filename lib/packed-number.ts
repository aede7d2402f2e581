/** @file Whole numbers as texts of a fixed width in base 64, and back. */

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const VALUES = new Map([...DIGITS].map((digit, value) => [digit, value]));

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

export function fixedNumber(text: string): number {
  let value = 0;
  for (let place = 0; place < text.length; place += 1)
    value = value * 64 + (VALUES.get(text.charAt(place)) ?? 0);
  return value;
}
