/** @file Many calls to the server at once, and not too many. */

const CONCURRENCY = 32;

/** Runs them all; fails with the first that fails. */
export async function each<Item>(
  items: readonly Item[],
  run: (item: Item) => Promise<void>,
): Promise<void> {
  const queue = [...items];
  const lanes = Array.from({ length: Math.min(CONCURRENCY, queue.length) }, async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await run(item);
  });
  await Promise.all(lanes);
}
