/** @file Runs many calls with bounded concurrency, such as those to the server. */

const CONCURRENCY = 32;

/** Runs all of them; what they give is in the order of the items. Fails with the first failure. */
export async function each<Item, Given>(
  items: readonly Item[],
  run: (item: Item) => Promise<Given>,
): Promise<readonly Given[]> {
  const given = new Array<Given>(items.length);
  const queue = items.entries();
  const lanes = Array.from({ length: Math.min(CONCURRENCY, items.length) }, async () => {
    for (const [at, item] of queue) given[at] = await run(item);
  });
  await Promise.all(lanes);
  return given;
}
