/** @file The size and the beginning of a value as JSON: exact for plain values, and bounded work for huge, deep and cyclic ones. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { isDeeperThan, jsonSizeUpTo, jsonStart } from "../../lib/json-size.ts";
import { caseCount } from "../support/case-count.ts";

const deep = (levels: number): unknown => {
  let value: unknown = [];
  for (let level = 0; level < levels; level += 1) value = [value];
  return value;
};
const cyclic: unknown[] = [];
cyclic.push(cyclic, cyclic);

test("the size is about that of the JSON, and never less than its text without escapes", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      const json = JSON.stringify(value);
      const escapes = json.split("\\").length - 1;
      const bytes = Buffer.byteLength(json);
      const size = jsonSizeUpTo(value, 1e9);
      expect(size).toBeGreaterThanOrEqual(bytes - 6 * escapes);
      expect(size).toBeLessThanOrEqual(bytes + json.length + 2);
    }),
    { numRuns: caseCount(200) },
  );
});

test("the beginning is that of the JSON", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), fc.nat({ max: 200 }), (value, chars) => {
      expect(jsonStart(value, chars)).toBe(JSON.stringify(value).slice(0, chars));
    }),
    { numRuns: caseCount(200) },
  );
});

test.each([
  ["deep", deep(100_000)],
  ["cyclic", cyclic],
  ["long", "x".repeat(10_000_000)],
  ["wide", Array.from({ length: 1_000_000 }, (_, at) => at)],
  ["bytes", new Uint8Array(10_000_000)],
])("a %s value is too large, and begins somehow", (_, value) => {
  expect(jsonSizeUpTo(value, 10_000)).toBeGreaterThan(10_000);
  expect(jsonStart(value, 500).length).toBeLessThanOrEqual(500);
});

test.each([
  ["a word", "x", 0],
  ["an empty list", [], 1],
  ["a list of maps of lists", [{ a: 1, b: [2] }, 3], 3],
  ["bytes", new Uint8Array(1e6), 0],
  ["a hundred thousand levels", deep(100_000), 100_001],
])("the levels of %s are counted", (_, value, levels) => {
  expect(isDeeperThan(value, levels)).toBe(false);
  if (levels > 0) expect(isDeeperThan(value, levels - 1)).toBe(true);
});
