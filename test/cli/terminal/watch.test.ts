/** @file What a redrawn screen keeps of a text that is higher than it. */

import { expect, it } from "vitest";
import { fitted } from "../../../cli/terminal/watch.ts";

const TEXT = ["HEAD", "1", "2", "3", "4"].join("\n");

it.each<[number | undefined, string]>([
  [undefined, TEXT],
  [6, TEXT],
  [5, "HEAD\n1\n2\n… 2 more"],
  [4, "HEAD\n1\n… 3 more"],
  [1, "HEAD\n… 4 more"],
])("on %j rows the head and the first rows that fit stay", (rows, wantText) => {
  expect(fitted(TEXT, rows)).toBe(wantText);
});
