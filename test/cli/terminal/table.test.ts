/** @file Tables fit the width: names are cut, states and numbers never; lines have no trailing spaces. */

import fc from "fast-check";
import { expect, it } from "vitest";
import {
  factsText,
  shrunkWidths,
  tableText,
  wholeNames,
  type Column,
} from "../../../cli/terminal/table.ts";

const COLUMNS: readonly Column[] = [
  { title: "JOB", least: 8 },
  { title: "STATE" },
  { title: "GPUS", isRight: true },
  { title: "WHERE", least: 6 },
];

it("aligns columns, numbers to the right, and ends lines without spaces", () => {
  const text = tableText(
    COLUMNS,
    [
      ["a", "running", "8", "x"],
      ["bcd", "pending", "16", ""],
    ],
    80,
  );
  expect(text).toBe(
    ["JOB  STATE    GPUS  WHERE", "a    running     8  x", "bcd  pending    16"].join("\n"),
  );
});

it("cuts the widest name first and marks the cut", () => {
  const text = tableText(
    COLUMNS,
    [["a-very-long-job-name-of-somebody", "running", "8", "eu-1/host-1"]],
    44,
  );
  const [head, row] = text.split("\n");
  expect(head?.length).toBeLessThanOrEqual(44);
  expect(row).toMatch(/^a-very-long-\w*-?\w*…  running {5}8  eu-1\/host-1$/);
  expect(row?.length).toBe(44);
});

it("counts coloured cells by what is seen", () => {
  const text = tableText(COLUMNS, [["a", "\u001b[32mrunning\u001b[39m", "8", "x"]], 80);
  expect(text).toContain("\u001b[32mrunning\u001b[39m     8");
});

it("never makes a line longer than the width while names can still give way", () => {
  const cell = fc.stringMatching(/^[a-z0-9/-]{0,60}$/);
  fc.assert(
    fc.property(
      fc.array(fc.tuple(cell, cell), { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 40, max: 120 }),
      (names, width) => {
        const rows = names.map(([job, where]) => [job, "completed", "128", where]);
        const lines = tableText(COLUMNS, rows, width).split("\n");
        for (const line of lines) expect(line.length).toBeLessThanOrEqual(width);
        for (const line of lines.slice(1)) expect(line).toContain("completed");
      },
    ),
  );
});

it.each([
  ["漢字", "漢字    x"],
  ["é\u0301a", "é\u0301a      x"],
  ["ｱｲ", "ｱｲ      x"],
  ["🙂", "🙂      x"],
  ["a\nbcdefg", "a       x\nbcdefg"],
])("%j takes the columns that a terminal gives it", (cell, want) => {
  const columns = [{ title: "A-NAME" }, { title: "X" }];
  expect(tableText(columns, [[cell, "x"]], 80)).toBe(`A-NAME  X\n${want}`);
});

it("cuts wide characters whole, and a colour ends with the cut text", () => {
  const cut = (cell: string): string | undefined =>
    tableText([{ title: "A", least: 4 }, { title: "X" }], [[cell, "x"]], 7).split("\n")[1];
  expect(cut("漢字漢字")).toBe("漢…   x");
  expect(cut("\u001b[31mfailed\u001b[39m")).toBe("\u001b[31mfai…\u001b[39m  x");
});

it("lays out ten thousand rows as it lays out one", () => {
  const row = (at: number): string[] => [`job-${String(at)}`, "pending", "8", "WaitingForGpus"];
  const all = Array.from({ length: 10_000 }, (_, at) => row(10_000 + at));
  const lines = tableText(COLUMNS, all, 80).split("\n");
  expect(lines).toHaveLength(10_001);
  expect(lines[7_001]).toBe(tableText(COLUMNS, [row(17_000)], 80).split("\n")[1]);
});

it("stops at the least widths, although the line is then too long", () => {
  expect(shrunkWidths(COLUMNS, [20, 9, 4, 20], 10)).toEqual([8, 9, 4, 6]);
});

it("aligns labelled facts and leaves out what is not known", () => {
  expect(
    factsText([
      ["job", "a"],
      ["UI", undefined],
      ["runs on", "x\ny"],
    ]),
  ).toBe("job      a\nruns on  x\n         y");
});

it("gives a program that reads the table its names whole, and a terminal short ones", () => {
  const name = "a-name-that-is-longer-than-all-of-the-line";
  const text = (isTerminal: boolean) =>
    tableText(
      wholeNames(COLUMNS, ["JOB"], isTerminal),
      [[name, "running", "8", "a-place-that-is-long"]],
      40,
    );
  expect(text(false)).toContain(`${name}  running     8  a-pla…`);
  expect(text(true)).not.toContain(name);
});
