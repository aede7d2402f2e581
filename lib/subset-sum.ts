/**
 * @file Chooses exactly `count` of some whole numbers whose sum is closest to a target from above.
 *
 * Bit sets of reachable sums by how many numbers were taken: taking one more number shifts the set, so 32 sums cost one word operation.
 * When more than half of the numbers are chosen, the search looks for those left out. It stops as soon as the target is reached. It keeps all
 * layers, because the way back through them gives the chosen numbers.
 * Ties: the numbers that come last in the list are taken last. Cost: O(numbers · count · target / 32) words; the caller may limit them.
 */

interface SubsetFound {
  /** Places in the list, ascending; absent when no such subset exists, or when the limit was too low to say. */
  readonly places?: readonly number[];
  readonly isExact: boolean;
  readonly words: number;
}

interface SubsetDemand {
  readonly count: number;
  readonly atLeast: number;
  /** Words of tables that may be made. */
  readonly mostWords: number;
}

export function leastSubset(numbers: readonly number[], settings: SubsetDemand): SubsetFound {
  const { count, atLeast, mostWords } = settings;
  const sorted = [...numbers].sort((a, b) => b - a);
  let largest = 0;
  for (let at = 0; at < count; at += 1) largest += sorted[at] ?? 0;
  if (count > numbers.length || largest < atLeast) return { isExact: true, words: 0 };
  const total = numbers.reduce((sum, each) => sum + each, 0);
  const isLeavingOut = 2 * count > numbers.length;
  const picked = isLeavingOut ? numbers.length - count : count;
  // The sums that can matter: up to the largest subset, or up to all that may be left out.
  const most = isLeavingOut ? total - atLeast : largest;
  const width = (most >> 5) + 1;
  const words = (numbers.length + 1) * (picked + 1) * width;
  if (words > Math.min(mostWords, MOST_WORDS)) return { isExact: false, words: 0 };
  const tables: Tables = { picked, width, most, bits: new Int32Array(words) };
  const target = isLeavingOut ? most : atLeast;
  const layer = fillTables(numbers, tables, target);
  const sum = isLeavingOut
    ? reachedBelow(tables, layer, target)
    : reachedAbove(tables, layer, target);
  if (sum === undefined) return { isExact: true, words };
  const chosen = wayBack(numbers, tables, { layer, sum });
  const places = isLeavingOut
    ? numbers.flatMap((_, at) => (chosen.has(at) ? [] : [at]))
    : [...chosen].sort((a, b) => a - b);
  return { places, isExact: true, words };
}

interface Tables {
  readonly picked: number;
  readonly width: number;
  readonly most: number;
  /** By how many numbers were looked at, how many of them were taken, and word. */
  readonly bits: Int32Array;
}

/** The hard limit of the tables, whatever the caller allows: 64 MiB. */
const MOST_WORDS = 2 ** 24;

/** Says after how many numbers the target was reached, or that all were looked at. */
function fillTables(
  numbers: readonly number[],
  { picked, width, most, bits }: Tables,
  target: number,
): number {
  const size = (picked + 1) * width;
  bits[0] = 1;
  for (let at = 0; at < numbers.length; at += 1) {
    const from = at * size;
    const to = from + size;
    bits.copyWithin(to, from, to);
    const own = numbers[at] ?? 0;
    const shift = own & 31;
    const skip = own >> 5;
    if (own > most) continue;
    const deepest = Math.min(picked, at + 1);
    for (
      let taken = Math.max(1, picked - (numbers.length - at - 1));
      taken <= deepest;
      taken += 1
    ) {
      const source = from + (taken - 1) * width;
      const goal = to + taken * width;
      for (let word = width - 1; word >= skip; word -= 1) {
        let moved = (bits[source + word - skip] ?? 0) << shift;
        if (shift !== 0 && word > skip)
          moved |= (bits[source + word - skip - 1] ?? 0) >>> (32 - shift);
        if (moved !== 0) bits[goal + word] = (bits[goal + word] ?? 0) | moved;
      }
    }
    const reached = bits[to + picked * width + (target >> 5)] ?? 0;
    if (((reached >>> (target & 31)) & 1) === 1) return at + 1;
  }
  return numbers.length;
}

/** The row of the tables after `layer` numbers, `taken` of which were chosen. */
const rowOf = ({ picked }: Tables, layer: number, taken: number): number =>
  layer * (picked + 1) + taken;

const isReached = ({ bits, width }: Tables, row: number, sum: number): boolean =>
  sum >= 0 && (((bits[row * width + (sum >> 5)] ?? 0) >>> (sum & 31)) & 1) === 1;

function reachedAbove(tables: Tables, layer: number, from: number): number | undefined {
  const row = rowOf(tables, layer, tables.picked);
  for (let sum = from; sum <= tables.most; sum += 1) if (isReached(tables, row, sum)) return sum;
  return undefined;
}

function reachedBelow(tables: Tables, layer: number, from: number): number | undefined {
  const row = rowOf(tables, layer, tables.picked);
  for (let sum = from; sum >= 0; sum -= 1) if (isReached(tables, row, sum)) return sum;
  return undefined;
}

function wayBack(
  numbers: readonly number[],
  tables: Tables,
  end: { readonly layer: number; readonly sum: number },
): ReadonlySet<number> {
  const chosen = new Set<number>();
  let { sum } = end;
  let taken = tables.picked;
  for (let layer = end.layer; layer > 0 && taken > 0; layer -= 1) {
    if (isReached(tables, rowOf(tables, layer - 1, taken), sum)) continue;
    chosen.add(layer - 1);
    sum -= numbers[layer - 1] ?? 0;
    taken -= 1;
  }
  return chosen;
}
