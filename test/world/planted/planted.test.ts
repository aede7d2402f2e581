/** @file Planted bugs are seen: each that the catalogue calls seen breaks a law within its number of seeds. */

import { expect, test } from "vitest";
import { drawSettings } from "../../../world/settings.ts";
import { play } from "../../../world/world.ts";
import { PLANTED } from "./catalogue.ts";

const SEEN = PLANTED.flatMap(({ seenWithin, ...bug }) =>
  seenWithin === undefined ? [] : [{ ...bug, seenWithin }],
);

test.each(SEEN)("$name: seen within $seenWithin seeds", ({ planted, seenWithin }) => {
  const laws = Array.from(
    { length: seenWithin },
    (_, at) => play(drawSettings(at + 1), { planted }).violation?.law,
  );
  expect(laws.filter((law) => law !== undefined)).not.toEqual([]);
});

test("names are unique", () => {
  expect(new Set(PLANTED.map(({ name }) => name)).size).toBe(PLANTED.length);
});
