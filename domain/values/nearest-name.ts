/**
 * @file Finds the known name that someone most likely meant: `gpu` → `gpus`, `time_limit` → `timeLimit`.
 *
 * Optimal string alignment (insert, delete, replace, swap neighbours; each costs 1) over lower-case letters and digits
 * alone. A name is near when a third of the longer word, at least one character, is all that differs.
 * Ties go to the name that comes first. Cost: product of the lengths for each name.
 */

/** Longer words are not typing errors. */
const MAX_WORD_CHARS = 64;

export function nearestName(word: string, names: readonly string[]): string | undefined {
  if (word.length > MAX_WORD_CHARS) return undefined;
  const sought = essence(word);
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const name of names) {
    const known = essence(name);
    const distance = editDistance(sought, known);
    const limit = Math.max(1, Math.floor(Math.max(sought.length, known.length) / 3));
    // Two words of one or two letters with nothing in common are not near each other.
    if (distance > limit || distance >= known.length) continue;
    if (best === undefined || distance < best.distance) best = { name, distance };
  }
  return best?.name;
}

export function editDistance(a: string, b: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const isSame = a[row - 1] === b[column - 1];
      let cost = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (isSame ? 0 : 1),
      );
      const isSwap =
        row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (isSwap) cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, b.length);
}

const at = (row: readonly number[], column: number): number => row[column] ?? Infinity;

/** The word without spelling conventions: `time-limit`, `TimeLimit` and `time_limit` are one word. */
const essence = (word: string): string => word.toLowerCase().replace(/[-_\s]/g, "");
