/**
 * @file Lays out rows in columns so that a line fits the width: names are shortened, numbers and states never.
 *
 * When the columns at their natural width are too wide together, the widest shrinkable column loses one character at a time
 * (ties: the leftmost) down to its least width, so long names are cut before short ones. A cut ends in an ellipsis. Widths are those
 * on a terminal: colours have none, wide characters two. A cell of several lines makes its row as high. Cost: linear in the text.
 */

import { stripVTControlCharacters } from "node:util";

export interface Column {
  readonly title: string;
  /** Least width when the line is too long; a column without it keeps its natural width. */
  readonly least?: number;
  readonly isRight?: boolean;
}

const GAP = "  ";

/** On a terminal long names are shortened; a program that reads the table gets those of these columns whole. */
export const wholeNames = (
  columns: readonly Column[],
  titles: readonly string[],
  isTerminal: boolean,
): readonly Column[] =>
  columns.map(({ least, ...column }) => {
    const isCut = least !== undefined && (isTerminal || !titles.includes(column.title));
    return { ...column, ...(isCut && { least }) };
  });

/** Header and rows as text without a final newline; cells may be coloured. */
export function tableText(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number,
): string {
  const lines = [columns.map(({ title }) => title), ...rows.flatMap(linesOf)];
  const natural = columns.map((_, index) =>
    lines.reduce((widest, line) => Math.max(widest, cellWidth(line[index] ?? "")), 0),
  );
  const widths = shrunkWidths(columns, natural, width);
  return lines
    .map((line) =>
      columns
        .map(({ isRight }, index) => {
          const cell = fitted(line[index] ?? "", widths[index] ?? 0);
          const padding = " ".repeat(Math.max(0, (widths[index] ?? 0) - cellWidth(cell)));
          return isRight === true ? padding + cell : cell + padding;
        })
        .join(GAP)
        .trimEnd(),
    )
    .join("\n");
}

/** A row of one line each, and what is said of it. */
export interface NotedRow {
  readonly cells: readonly string[];
  /** Whole, however long. */
  readonly note: string;
}

/** A table whose notes stand under their rows, indented, in lines that fit the width. Line breaks in cells and notes, which others may have written, are shown as `\n`. */
export function notedTable(
  columns: readonly Column[],
  rows: readonly NotedRow[],
  width: number,
): string {
  const cells = rows.map((row) => row.cells.map(inOneLine));
  const [header = "", ...lines] = tableText(columns, cells, width).split("\n");
  const noted = rows.flatMap(({ note }, at) => [
    lines[at] ?? "",
    ...wrapped(inOneLine(note), width - GAP.length).map((line) => `${GAP}${line}`),
  ]);
  return [header, ...noted].join("\n");
}

export const inOneLine = (text: string): string => text.replaceAll("\n", "\\n");

/** Between words; a word that is longer than a line is broken. */
function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  const end = (): void => {
    if (line !== "") lines.push(line);
    line = "";
  };
  for (const word of text.split(" ")) {
    if (line !== "" && cellWidth(`${line} ${word}`) > width) end();
    if (line !== "") line += " ";
    for (const character of word) {
      if (cellWidth(line + character) > width) end();
      line += character;
    }
  }
  end();
  return lines;
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

function linesOf(row: readonly string[]): readonly (readonly string[])[] {
  if (!row.some((cell) => cell.includes("\n"))) return [row];
  const cells = row.map((cell) => cell.split("\n"));
  const height = Math.max(...cells.map(({ length }) => length));
  return Array.from({ length: height }, (_, at) => cells.map((lines) => lines[at] ?? ""));
}

const COLOUR_OR_CHARACTER = /\u001b\[[\d;]*m|[^]/gu;

/** Colours stay whole, so that the one which ends a cut text ends it. */
function fitted(cell: string, width: number): string {
  if (cellWidth(cell) <= width) return cell;
  let room = width - ELLIPSIS.length;
  let isCut = false;
  let text = "";
  for (const [part] of cell.matchAll(COLOUR_OR_CHARACTER)) {
    if (part.startsWith("\u001b[")) text += part;
    else if (!isCut) {
      room -= cellWidth(part);
      isCut = room < 0;
      text += isCut ? ELLIPSIS : part;
    }
  }
  return text;
}

const ELLIPSIS = "…";
const PLAIN = /^[\x20-\x7e]*$/;
const WITHOUT_WIDTH = /^[\p{Mark}\p{Format}]$/u;
const HALF_WIDTH = /^[\uff61-\uffdc]$/;
const WIDE =
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303e\uff01-\uff60\uffe0-\uffe6]$/u;

function cellWidth(cell: string): number {
  if (PLAIN.test(cell)) return cell.length;
  const seen = stripVTControlCharacters(cell);
  if (PLAIN.test(seen)) return seen.length;
  let cells = 0;
  for (const character of seen) {
    if (WITHOUT_WIDTH.test(character)) continue;
    cells += WIDE.test(character) && !HALF_WIDTH.test(character) ? 2 : 1;
  }
  return cells;
}
