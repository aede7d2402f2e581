/** @file Comma-separated values: quotes, widths and numbers. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { cellReader, decimal, missingColumn, readCsv } from "../../../domain/values/csv.ts";

test("cells that are quoted as RFC 4180 says read back the same", () => {
  const cell = fc.string().map((text) => text.replace(/[\r\n]/g, " "));
  fc.assert(
    fc.property(fc.array(cell, { minLength: 2, maxLength: 5 }), (cells) => {
      const header = cells.map((_, index) => `c${index}`).join(",");
      const row = cells.map((text) => `"${text.replaceAll('"', '""')}"`).join(",");
      // The reader takes terminal colours and no-break spaces out of every text; they are no part of this law.
      const plain = cells.map((text) => text.replaceAll("\u00a0", " "));
      expect(readCsv(`${header}\n${row}`).rows.map((one) => one.cells)).toEqual([plain]);
    }),
  );
});

test("rows know their line; comments and empty lines are no rows; bad rows are named", () => {
  const table = readCsv('\ufeffa,b\r\n\r\n# note\r\n1, 2 \r\n1,2,3\r\n"x,2\r\n');
  const cell = cellReader(table);
  expect(
    table.rows.map((row) => [row.line, cell(row, "a"), cell(row, "b"), cell(row, "c")]),
  ).toEqual([[4, "1", "2", ""]]);
  expect(table.badRows.map(({ line, message }) => `${line} ${message}`)).toEqual([
    "5 the row has 3 cells and needs 2",
    "6 a quote is not closed",
  ]);
});

test("a header that lacks a column names it", () => {
  const table = readCsv("a,b\n1,2");
  expect(missingColumn(table, ["a", "b"])).toBeUndefined();
  expect(missingColumn(table, ["a", "z"])?.message).toBe(
    'column z is missing; the header is "a,b"',
  );
});

test.each([
  ["12", 12],
  ["-1.5", -1.5],
  ["1e3", 1000],
  ["", undefined],
  ["0x10", undefined],
  ["NaN", undefined],
  ["Infinity", undefined],
  ["1.", undefined],
])("the number in %j is %s", (text, want) => {
  expect(decimal(text)).toBe(want);
});
