/** @file A draft of a map: the map before stays as it is, and nothing is copied before the first change. */
import { expect, test } from "vitest";
import { draftOf } from "../../lib/draft-map.ts";

test("a draft is the map before until its first change, and its own copy from then on", () => {
  const before = new Map([["a", 1]]);
  const draft = draftOf(before);
  expect(draft.now).toBe(before);
  draft.write().set("b", 2);
  expect([...draft.now]).toEqual([
    ["a", 1],
    ["b", 2],
  ]);
  expect(draft.write()).toBe(draft.now);
  expect(before.size).toBe(1);
});

test("a draft of nothing is empty", () => {
  expect(draftOf().now.size).toBe(0);
});
