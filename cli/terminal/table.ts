/**
 * @file Lays out rows in columns so that a line fits the width: names are shortened, numbers and states never.
 *
 * When the columns at their natural width are too wide together, the widest shrinkable column loses one character at a time
 * (ties: the leftmost) down to its least width, so long names are cut before short ones. A cut ends in an ellipsis.
 */

import Table from "cli-table3";
import { stripVTControlCharacters } from "node:util";

export interface Column {
  readonly title: string;
  /** Least width when the line is too long; a column without it keeps its natural width. */
  readonly least?: number;
  readonly isRight?: boolean;
}

const GAP = "  ";

/** Header and rows as text without a final newline; cells may be coloured. */
export function tableText(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
): string {
  const natural = columns.map(({ title }, index) =>
    Math.max(title.length, ...rows.map((row) => cellWidth(row[index] ?? ""))),
  );
  const table = new Table({
    head: columns.map(({ title }) => title),
    chars: { ...NO_LINES, middle: GAP },
    colWidths: [...shrunkWidths(columns, natural, width)],
    colAligns: columns.map(({ isRight }) => (isRight === true ? "right" : "left")),
    style: { head: [], border: [], "padding-left": 0, "padding-right": 0, compact: true },
  });
  for (const row of rows) table.push([...row]);
  return table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd())
    .join("\n");
}

/** Widths whose sum with the gaps is at most `width`, as far as the least widths allow. */
export function shrunkWidths(
  columns: readonly Column[],
  natural: readonly number[],
  width: number,
): readonly number[] {
  const widths = [...natural];
  const room = width - GAP.length * (columns.length - 1);
  for (let excess = widths.reduce((sum, cells) => sum + cells, 0) - room; excess > 0; excess -= 1) {
    let widest: number | undefined;
    columns.forEach(({ least }, index) => {
      const cells = widths[index] ?? 0;
      if (least === undefined || cells <= least) return;
      if (widest === undefined || cells > (widths[widest] ?? 0)) widest = index;
    });
    if (widest === undefined) break;
    widths[widest] = (widths[widest] ?? 0) - 1;
  }
  return widths;
}

/** `label  value` lines with the values aligned; pairs without a value are left out. */
export function factsText(facts: readonly (readonly [string, string | undefined])[]): string {
  const given = facts.flatMap(([label, value]) =>
    value === undefined ? [] : [[label, value] as const],
  );
  const labelWidth = Math.max(0, ...given.map(([label]) => label.length));
  const indent = " ".repeat(labelWidth + GAP.length);
  return given
    .map(
      ([label, value]) =>
        `${label.padEnd(labelWidth)}${GAP}${value.replaceAll("\n", `\n${indent}`)}`,
    )
    .join("\n");
}

const NO_LINES = {
  top: "",
  "top-mid": "",
  "top-left": "",
  "top-right": "",
  bottom: "",
  "bottom-mid": "",
  "bottom-left": "",
  "bottom-right": "",
  left: "",
  "left-mid": "",
  mid: "",
  "mid-mid": "",
  right: "",
  "right-mid": "",
};

function cellWidth(cell: string): number {
  return stripVTControlCharacters(cell).length;
}
