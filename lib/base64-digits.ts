/** @file The digits of base 64 in ids and numbers that are packed as text, by value and by character code. */

export const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

const VALUES: readonly number[] = Array.from({ length: 128 }, (_, code) =>
  Math.max(0, DIGITS.indexOf(String.fromCharCode(code))),
);

/** Of the character at this place; 0 where it is no digit. */
export const digitAt = (text: string, at: number): number => VALUES[text.charCodeAt(at)] ?? 0;
