/** @file Lanes in turns: never more tasks at a time than lanes, every task once, and no key waits for more than one task of each other key. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { fairLanes } from "../../lib/fair-lanes.ts";

/** Tasks that end when they are told to, and the order in which they began. */
function playground(lanes: number) {
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  let open = 0;
  let most = 0;
  const { run } = fairLanes(lanes);
  return {
    begun,
    most: () => most,
    add: (key: string) =>
      run(key, async () => {
        begun.push(key);
        open += 1;
        most = Math.max(most, open);
        await new Promise<void>((resolve) => ends.push(resolve));
        open -= 1;
        return key;
      }),
    async endOne() {
      ends.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

it("starts the one task of a key before the second that waits of another", async () => {
  const { begun, add, endOne } = playground(2);
  const all = ["many", "many", "many", "many", "many", "one"].map(add);
  while (begun.length < all.length) await endOne();
  expect(begun).toEqual(["many", "many", "many", "one", "many", "many"]);
});

it("runs every task once, as many at a time as there are lanes, and no key waits for two tasks of another", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.constantFrom("a", "b", "c"), { minLength: 1, maxLength: 30 }),
      async (lanes, keys) => {
        const { begun, add, endOne, most } = playground(lanes);
        const all = keys.map(add);
        while (begun.length < keys.length) await endOne();
        for (let end = 0; end < lanes; end += 1) await endOne();
        expect(await Promise.all(all)).toEqual(keys);
        expect(most()).toBe(Math.min(lanes, keys.length));
        // All were there from the start: while a key waits, no other gets two turns in a row.
        const turns = begun.slice(lanes);
        const lastOf = new Map(turns.map((key, at) => [key, at]));
        for (let at = 1; at < turns.length; at += 1) {
          const isAnyLeft = [...lastOf].some(([key, last]) => key !== turns[at] && last > at);
          if (turns[at] === turns[at - 1]) expect(isAnyLeft).toBe(false);
        }
      },
    ),
  );
});

it("passes failures on, and frees their lanes", async () => {
  const { run } = fairLanes(1);
  await expect(run("a", () => Promise.reject(new Error("refused")))).rejects.toThrow("refused");
  expect(await run("b", () => Promise.resolve(1))).toBe(1);
});
