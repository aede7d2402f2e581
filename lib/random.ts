/**
 * @file Random numbers from a seed, in streams by name: draws of one stream never shift those of another.
 *
 * sfc32 (Chris Doty-Humphrey's small fast counter, PractRand): 128 bits of state, passes BigCrush. A stream's state is mixed from
 * seed and name by xmur3 (MurmurHash3's finaliser over the text), so streams of different names are unrelated.
 */

export interface Random {
  /** In [0, 1). */
  readonly unit: () => number;
  /** A whole number from 0 to `count` − 1. */
  readonly below: (count: number) => number;
  /** With this mean. */
  readonly exponential: (mean: number) => number;
  /** Mean 0, variance 1. */
  readonly normal: () => number;
  /** A sequence of its own, independent of earlier draws. */
  readonly stream: (name: string) => Random;
}

export function randomFrom(seed: number, name = ""): Random {
  const mixed = xmur3(`${String(seed)}:${name}`);
  let a = mixed();
  let b = mixed();
  let c = mixed();
  let counter = 1;
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + sum) | 0;
    return sum >>> 0;
  };
  // The authors' advice: the first dozen outputs still show the seed.
  for (let round = 0; round < 12; round += 1) next();
  const unit = (): number => ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53;
  return {
    unit,
    below: (count) => Math.floor(unit() * count),
    exponential: (mean) => -mean * Math.log(1 - unit()),
    // Box and Muller; the second value is given up, so that one call draws two numbers always.
    normal: () => Math.sqrt(-2 * Math.log(1 - unit())) * Math.cos(2 * Math.PI * unit()),
    stream: (child) => randomFrom(seed, `${name}/${child}`),
  };
}

/** So many of the items, none twice, in random order; all of them when there are no more. */
export function sampled<Item>(
  items: readonly Item[],
  count: number,
  random: Pick<Random, "below">,
): Item[] {
  const rest = [...items];
  const chosen: Item[] = [];
  while (chosen.length < count && rest.length > 0)
    chosen.push(...rest.splice(random.below(rest.length), 1));
  return chosen;
}

/** Fisher and Yates. */
export function shuffled<Item>(items: readonly Item[], random: Random): Item[] {
  const order = [...items];
  for (let last = order.length - 1; last > 0; last -= 1) {
    const other = random.below(last + 1);
    const [a, b] = [order[last], order[other]];
    if (a === undefined || b === undefined) continue;
    order[last] = b;
    order[other] = a;
  }
  return order;
}

function xmur3(text: string): () => number {
  let hash = 1779033703 ^ text.length;
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 3432918353);
    hash = (hash << 13) | (hash >>> 19);
  }
  return () => {
    hash = Math.imul(hash ^ (hash >>> 16), 2246822507);
    hash = Math.imul(hash ^ (hash >>> 13), 3266489909);
    hash ^= hash >>> 16;
    return hash >>> 0;
  };
}
