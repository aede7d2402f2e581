/** @file Times as operators write them. */

import { expect, it } from "vitest";
import { wallTime } from "../../../cli/command/wall-time.ts";

const NOW = new Date(2026, 2, 1, 12, 30).getTime();
const at = (...parts: [number, number, number, number]): number =>
  new Date(2026, ...parts).getTime();

it.each([
  { text: "22:00", want: at(2, 1, 22, 0) },
  { text: "9:05", want: at(2, 2, 9, 5) },
  { text: "12:30", want: at(2, 2, 12, 30) },
  { text: "+2h", want: NOW + 7_200_000 },
  { text: "2026-03-01T14:00", want: at(2, 1, 14, 0) },
  { text: "2026-03-02 01:00", want: at(2, 2, 1, 0) },
  { text: "2099-01-01T00:00Z", want: Date.UTC(2099, 0, 1) },
])("$text", ({ text, want }) => {
  expect(wallTime("--at", text, NOW)).toBe(want);
});

it.each(["", "25:00", "22:60", "soon", "+", "+x", "2026-13-01T00:00", "2020-01-01T00:00", "7"])(
  "%j is refused",
  (text) => {
    expect(() => wallTime("--at", text, NOW)).toThrow(/is no time|has passed/);
  },
);
