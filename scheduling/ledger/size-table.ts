/**
 * @file The size of a table of shared values: each counts once for as long as any row refers to it, and an index as long as the longest.
 *
 * Cost: O(value) a reference. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { utf8Length } from "../../lib/utf8.ts";
import type { Interner } from "../../lib/interner.ts";

export interface SizeTable<T> extends Interner<T> {
  readonly bytes: () => number;
  /** The value is referred to so many times more. */
  readonly refer: (value: T, times: number) => void;
}

/** Of a JSON value in UTF-8. */
export const jsonBytes = (value: unknown): number => utf8Length(JSON.stringify(value));

/** The same of a text. */
export const textBytes = (text: string): number =>
  AS_IT_IS.test(text) ? text.length + QUOTES : jsonBytes(text);

const QUOTES = 2;
/** ASCII that JSON writes as it is. */
const AS_IT_IS = /^[ !#-[\]-~]*$/;

export const COMMA = 1;

/**
 * The same keys; a long one is kept for as long as anybody holds its value, which must never change. An account of a ledger is opened for each fork of it,
 * and meets the values there that former ones have met: writing and hashing a key of some KiB costs more than all else of its row.
 */
export function keptKeys<T extends object>(keyOf: (value: T) => string): (value: T) => string {
  const long = new WeakMap<T, string>();
  return (value) => {
    const kept = long.get(value);
    if (kept !== undefined) return kept;
    const key = keyOf(value);
    if (key.length >= LONG_KEY) long.set(value, key);
    return key;
  };
}

const LONG_KEY = 256;

/** The same of a list of numbers; long lists are measured after many events, so none is written. */
export function numbersBytes(numbers: readonly number[]): number {
  let bytes = BRACKETS + COMMA * Math.max(0, numbers.length - 1);
  for (const each of numbers) bytes += numberBytes(each);
  return bytes;
}

const BRACKETS = 2;

/** The same of a number. */
export function numberBytes(value: number): number {
  if (!Number.isSafeInteger(value) || value < 0) return JSON.stringify(value).length;
  let digits = 1;
  for (let next = 10; value >= next; next *= 10) digits += 1;
  return digits;
}

interface TableOptions<T> {
  readonly keyOf: (value: T) => string;
  /** What the table holds; writing it counts what it refers to. */
  readonly rowOf: (value: T) => unknown;
  readonly signOf: () => 1 | -1;
  /** A key is the JSON of its row. */
  readonly isKeyWritten?: true;
  /** What the fleet's description has already. */
  readonly known?: ReadonlySet<string>;
  /** `none`: rows refer to its values by texts that are equally long, or not at all. */
  readonly indexes?: "in rows" | "none";
}

export function sizeTable<T>({
  keyOf,
  rowOf,
  signOf,
  isKeyWritten,
  known = new Set(),
  indexes = "in rows",
}: TableOptions<T>): SizeTable<T> {
  const entries = new Map<string, { references: number; readonly bytes: number }>();
  let references = 0;
  let bytes = 0;
  return {
    values: [],
    indexOf(value) {
      refer(value, signOf());
      return 0;
    },
    refer,
    // Each index is written as 0 in its row; it may have as many digits as the last one.
    bytes: () =>
      indexes === "none"
        ? bytes
        : bytes + references * (digitsOf(known.size + entries.size - 1) - 1),
  };

  function refer(value: T, times: number): void {
    const key = keyOf(value);
    references += times;
    if (known.has(key)) return;
    const entry = entries.get(key);
    if (entry === undefined) {
      const row = isKeyWritten ? utf8Length(key) : jsonBytes(rowOf(value));
      const added = { references: times, bytes: row + COMMA };
      entries.set(key, added);
      bytes += added.bytes;
      return;
    }
    entry.references += times;
    if (entry.references > 0) return;
    entries.delete(key);
    bytes -= entry.bytes;
    rowOf(value);
  }
}

export const digitsOf = (index: number): number => String(Math.max(0, index)).length;

interface Counter {
  readonly note: (index: number) => void;
  /** Values that were noted, with how often. */
  readonly each: <T>(values: readonly T[], take: (value: T, times: number) => void) => void;
}

export function counter(): Counter {
  const times: number[] = [];
  return {
    note(index) {
      times[index] = (times[index] ?? 0) + 1;
    },
    each(values, take) {
      values.forEach((value, index) => {
        const count = times[index] ?? 0;
        if (count > 0) take(value, count);
      });
    },
  };
}
