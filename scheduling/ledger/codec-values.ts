/**
 * @file Readers for numbers, lists and indices of a packed ledger, with an error that names the broken value.
 *
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

/** A number as the difference to another one, or in full as a text where the difference would not be exact. */
export type Packed = number | string;

/** Rows end with what is there; what is left out before that is null. */
export const isThere = <T>(value: T | null | undefined): value is T =>
  value !== null && value !== undefined;

export const isRow = <Row extends readonly unknown[]>(value: Row | 0 | undefined): value is Row =>
  value !== undefined && value !== 0;

export function since(value: number, base = 0): Packed {
  const difference = value - base;
  return base + difference === value && Number.isFinite(difference) ? difference : String(value);
}

export const at = (packed: Packed, base = 0): number =>
  typeof packed === "string" ? Number(packed) : base + packed;

export const pairsOf = (flat: readonly number[]): (readonly [number, number])[] =>
  Array.from({ length: flat.length / 2 }, (_, pair) => [
    entry(flat, 2 * pair),
    entry(flat, 2 * pair + 1),
  ]);

export function entry<T>(table: readonly T[], index: number): T {
  const value = table[index];
  if (value === undefined)
    throw new RangeError(`a packed ledger is broken: no entry ${index} of ${table.length}`);
  return value;
}

export function orphan(what: string): never {
  throw new Error(
    `a ledger that breaks its invariants cannot be packed: ${what} belongs to nothing`,
  );
}
