import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { each } from "../../lib/each.ts";

test("gives what every call gives, in the order of the items, 32 calls at a time", async () => {
  let [open, most] = [0, 0];
  const items = Array.from({ length: 100 }, (_, at) => at);
  const given = await each(items, async (item) => {
    open += 1;
    most = Math.max(most, open);
    await sleep((item * 7) % 5);
    open -= 1;
    return 2 * item;
  });
  expect(given).toEqual(items.map((item) => 2 * item));
  expect(most).toBe(32);
});

test("fails with the first failure", async () => {
  const run = (item: number): Promise<number> =>
    item === 2 ? Promise.reject(new Error("two")) : Promise.resolve(item);
  await expect(each([1, 2, 3], run)).rejects.toThrow("two");
});
