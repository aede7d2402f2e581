/**
 * @file Ids in fewer characters: a UUID in its usual lower-case form becomes `~` and 22 characters of base 64.
 *
 * Any other text stays as it is, with one more `~` in front if it begins with one. `longId(shortId(x))` is `x` for every text.
 * Cost: one pass over the characters, because a ledger has tens of thousands of them.
 */

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const UUID_LENGTH = 36;
/** Hexadecimal digits that make two digits of base 64. */
const GROUP = 3;

export function shortId(id: string): string {
  const short = id.length === UUID_LENGTH ? shortened(id) : undefined;
  return short ?? (id.startsWith("~") ? `~${id}` : id);
}

export function longId(short: string): string {
  if (!short.startsWith("~")) return short;
  if (short.startsWith("~~")) return short.slice(1);
  let hex = "";
  for (let at = 1; at < short.length; at += 2) {
    const bits = DIGITS.indexOf(short.charAt(at)) * 64 + DIGITS.indexOf(short.charAt(at + 1));
    hex += bits.toString(16).padStart(GROUP, "0");
  }
  const cuts = [0, 8, 12, 16, 20, 32];
  return cuts
    .slice(1)
    .map((end, part) => hex.slice(cuts[part], end))
    .join("-");
}

/** Absent when the text is no lower-case UUID. */
function shortened(id: string): string | undefined {
  let short = "~";
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
    short += DIGITS.charAt(bits >> 6) + DIGITS.charAt(bits & 63);
    bits = 0;
  }
  // 32 digits leave two over; a zero makes them a group.
  bits *= 16;
  return short + DIGITS.charAt(bits >> 6) + DIGITS.charAt(bits & 63);
}

const DASH = 45;
const ZERO = 48;
const LOWER_A = 97;
