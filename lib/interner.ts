/** @file Gives each distinct value an index, in the order of first sight, so that equal values are stored once. */

export interface Interner<T> {
  /** Equal keys are equal values. */
  readonly indexOf: (value: T) => number;
  /** All values so far, by index. */
  readonly values: readonly T[];
}

export function interner<T>(keyOf: (value: T) => string, first: readonly T[] = []): Interner<T> {
  const values: T[] = [];
  const indices = new Map<string, number>();
  const indexOf = (value: T): number => {
    const key = keyOf(value);
    const known = indices.get(key);
    if (known !== undefined) return known;
    indices.set(key, values.length);
    values.push(value);
    return values.length - 1;
  };
  first.forEach(indexOf);
  return { indexOf, values };
}
