/** @file Planted bugs are seen: each that the catalogue calls seen breaks a law at its seed, which breaks none without the bug. */

import { expect, test } from "vitest";
import { drawSettings } from "../../../world/draw-settings.ts";
import { play } from "../../../world/world.ts";
import { PLANTED } from "./catalogue.ts";

const SEEN = PLANTED.flatMap(({ seenAt, ...bug }) =>
  seenAt === undefined ? [] : [{ ...bug, seenAt }],
);

test.each(SEEN)("$name: seen at seed $seenAt", ({ planted, seenAt, climate = "narrow" }) => {
  const settings = drawSettings(seenAt, { climate });
  expect(play(settings).violation).toBeUndefined();
  expect(play(settings, { planted }).violation?.law).toBeDefined();
});

test("names are unique", () => {
  expect(new Set(PLANTED.map(({ name }) => name)).size).toBe(PLANTED.length);
});
