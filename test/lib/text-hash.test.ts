import fc from "fast-check";
import { expect, it } from "vitest";
import { textHash } from "../../lib/text-hash.ts";

/** Runs hand hashes to each other, and workers of several releases compare theirs. */
it.each([
  ["", "", "7a43d560876b4cb82a68250542459476"],
  ["a fleet's event", "", "70162de4c5ab82ba4a81314c41a7065e"],
  ["ÄÖ 日本 \u{1f680}", "0123456789abcdef0123456789abcdef", "6bb7a51572950b851577e626189ca275"],
])("the hash of %j after %j stays what it was", (text, seed, want) => {
  expect(textHash(text, seed)).toBe(want);
});

it("texts that differ have different hashes, and so have seeds", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (a, b) => {
      fc.pre(a !== b);
      expect(textHash(a)).not.toBe(textHash(b));
      expect(textHash("text", a)).not.toBe(textHash("text", b));
    }),
  );
});
