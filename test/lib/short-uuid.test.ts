/** @file Ids in fewer characters: every text comes back, and a UUID is found wherever its digits begin. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { longId, shortId, uuidFrom } from "../../lib/short-uuid.ts";

const text = fc.oneof(
  fc.string(),
  fc.uuid(),
  fc.string().map((rest) => `~${rest}`),
);

test("every text comes back", () => {
  fc.assert(fc.property(text, (id) => longId(shortId(id)) === id));
});

test("a UUID takes 22 digits, and is read from among other characters", () => {
  fc.assert(
    fc.property(fc.uuid(), fc.string(), fc.string(), (id, before, after) => {
      const short = shortId(id);
      expect(short).toHaveLength(23);
      expect(uuidFrom(`${before}${short.slice(1)}${after}`, before.length)).toBe(id);
    }),
  );
});
