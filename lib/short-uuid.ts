/**
 * @file Ids in fewer characters: a UUID in its usual lower-case form becomes `~` and 22 characters of base 64.
 *
 * Any other text stays as it is, with one more `~` in front if it begins with one. `longId(shortId(x))` is `x` for every text.
 * Cost: one pass over the characters, because a ledger has tens of thousands of them.
 */

import { DIGITS, digitAt } from "./base64-digits.ts";

const UUID_LENGTH = 36;
const DASHES = 4;
/** Hexadecimal digits that make two digits of base 64. */
const GROUP = 3;

export function shortId(id: string): string {
  const short = id.length === UUID_LENGTH ? shortened(id) : undefined;
  return short ?? (id.startsWith("~") ? `~${id}` : id);
}

export function longId(short: string): string {
  if (!short.startsWith("~")) return short;
  if (short.startsWith("~~")) return short.slice(1);
  return uuidFrom(short, 1);
}

/** The UUID whose 22 digits of base 64 begin at this place. */
export function uuidFrom(text: string, from: number): string {
  let place = 0;
  for (let digit = 0; digit < UUID_LENGTH - DASHES; digit += GROUP) {
    // Three hexadecimal digits are two of base 64; the last group has two of the three.
    const at = from + (digit / GROUP) * 2;
    const bits = digitAt(text, at) * 64 + digitAt(text, at + 1);
    for (let shift = 8; shift >= 0; shift -= 4) {
      if (place === 8 || place === 13 || place === 18 || place === 23) place += 1;
      if (place < UUID_LENGTH) CODES[place] = hexCode((bits >> shift) & 15);
      place += 1;
    }
  }
  return String.fromCharCode.apply(undefined, CODES);
}

/** Written and read within one call: a list for each of ten thousand ids would cost more than the ids. */
const CODES: number[] = Array.from({ length: UUID_LENGTH }, () => "-".charCodeAt(0));

const hexCode = (value: number): number => (value < 10 ? ZERO + value : LOWER_A - 10 + value);

/** Absent when the text is no lower-case UUID. */
function shortened(id: string): string | undefined {
  let place = 1;
  let bits = 0;
  let digits = 0;
  for (let at = 0; at < UUID_LENGTH; at += 1) {
    const unit = id.charCodeAt(at);
    if (at === 8 || at === 13 || at === 18 || at === 23) {
      if (unit !== DASH) return undefined;
      continue;
    }
    const isDigit = unit >= ZERO && unit <= ZERO + 9;
    if (!isDigit && (unit < LOWER_A || unit > LOWER_A + 5)) return undefined;
    bits = bits * 16 + (isDigit ? unit - ZERO : unit - LOWER_A + 10);
    digits += 1;
    if (digits % GROUP !== 0) continue;
    place = putDigits(place, bits);
    bits = 0;
  }
  // 32 digits leave two over; a zero makes them a group.
  putDigits(place, bits * 16);
  return String.fromCharCode.apply(undefined, SHORT_CODES);
}

function putDigits(place: number, bits: number): number {
  SHORT_CODES[place] = DIGITS.charCodeAt(bits >> 6);
  SHORT_CODES[place + 1] = DIGITS.charCodeAt(bits & 63);
  return place + 2;
}

/** As `CODES`. */
const SHORT_CODES: number[] = Array.from({ length: 23 }, () => "~".charCodeAt(0));

const DASH = 45;
const ZERO = 48;
const LOWER_A = 97;
