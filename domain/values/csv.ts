/**
 * @file Comma-separated values with a header line, as rows that know their line and answer by column name.
 *
 * Reads what RFC 4180 allows on one line: quoted cells, doubled quotes. A line break inside quotes is refused as a
 * row that is not closed; none of our inputs has one. Rows of another width than the header are problems.
 */

import { shown } from "./file-problem.ts";
import type { Problem } from "./problem.ts";
import { cleanLines } from "./text-lines.ts";

export interface CsvRow {
  readonly line: number;
  readonly cells: readonly string[];
}

export interface CsvTable {
  readonly header: readonly string[];
  readonly rows: readonly CsvRow[];
  /** Rows that could not be split into the header's columns; they are in no other list. */
  readonly badRows: readonly Problem[];
}

/** Lines that are empty or begin with `#` are no rows. */
export function readCsv(text: string): CsvTable {
  const rows: CsvRow[] = [];
  const badRows: Problem[] = [];
  let header: readonly string[] | undefined;
  for (const [index, line] of cleanLines(text).entries()) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    const cells = splitCsvLine(line);
    if (header === undefined) {
      header = cells ?? [];
    } else if (cells === undefined) {
      badRows.push({
        line: index + 1,
        message: "a quote is not closed",
        remedy: "close it, or double it inside a quoted cell",
      });
    } else if (cells.length === header.length) {
      rows.push({ line: index + 1, cells });
    } else {
      badRows.push({
        line: index + 1,
        message: `the row has ${cells.length} cells and needs ${header.length}`,
        remedy: `the columns are ${header.join(",")}`,
      });
    }
  }
  return { header: header ?? [], rows, badRows };
}

/** The problem of a header that lacks a needed column. */
export function missingColumn(table: CsvTable, needed: readonly string[]): Problem | undefined {
  const missing = needed.find((name) => !table.header.includes(name));
  if (missing === undefined) return undefined;
  return {
    line: 1,
    message: `column ${missing} is missing; the header is ${shown(table.header.join(","))}`,
    remedy: `the first line names the columns ${needed.join(", ")}`,
  };
}

/** A reader of cells by column name; an absent column reads as empty. */
export function cellReader(table: CsvTable): (row: CsvRow, name: string) => string {
  const indexByName = new Map(table.header.map((name, index) => [name, index]));
  return (row, name) => row.cells[indexByName.get(name) ?? -1] ?? "";
}

/** A plain decimal number, or `undefined`: no signs of infinity, no hexadecimal, no empty cell as zero. */
export function decimal(text: string): number | undefined {
  return /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text) : undefined;
}

function splitCsvLine(line: string): string[] | undefined {
  const cells: string[] = [];
  let at = 0;
  for (;;) {
    if (line[at] === '"') {
      let cell = "";
      for (at += 1; line[at] !== '"' || line[at + 1] === '"'; at += 1) {
        if (at >= line.length) return undefined;
        if (line[at] === '"') at += 1;
        cell += line[at] ?? "";
      }
      cells.push(cell);
      at += 1;
      if (at < line.length && line[at] !== ",") return undefined;
    } else {
      const comma = line.indexOf(",", at);
      const end = comma === -1 ? line.length : comma;
      cells.push(line.slice(at, end).trim());
      at = end;
    }
    if (at >= line.length) return cells;
    at += 1;
  }
}
