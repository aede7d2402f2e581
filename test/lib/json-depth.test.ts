import fc from "fast-check";
import { expect, it } from "vitest";
import { isTextDeeperThan } from "../../lib/json-depth.ts";
import { isDeeperThan } from "../../lib/json-size.ts";

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

it("finds in a text what a walk through its value finds", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 6 }), fc.nat(6), (text, levels) => {
      expect(isTextDeeperThan(bytesOf(text), levels)).toBe(isDeeperThan(JSON.parse(text), levels));
    }),
  );
});

it.each([
  { text: "[]", levels: 0, want: true },
  { text: "[]", levels: 1, want: false },
  { text: '[{"a":[1]},[[]]]', levels: 2, want: true },
  { text: '[{"a":[1]},[[]]]', levels: 3, want: false },
  { text: '"[[[[[["', levels: 1, want: false },
  { text: String.raw`["\\","[[","\"[["]`, levels: 1, want: false },
  { text: String.raw`["\\",["]"]]`, levels: 1, want: true },
])("of $text: more than $levels levels is $want", ({ text, levels, want }) => {
  JSON.parse(text);
  expect(isTextDeeperThan(bytesOf(text), levels)).toBe(want);
});

it("takes a text of a million brackets, and one that is cut off", () => {
  expect(isTextDeeperThan(bytesOf("[".repeat(1_000_000)), 999_999)).toBe(false);
  expect(isTextDeeperThan(bytesOf("[".repeat(1_000_000)), 400_000)).toBe(true);
  expect(isTextDeeperThan(bytesOf('"'.repeat(3) + "[".repeat(50)), 9)).toBe(false);
});
