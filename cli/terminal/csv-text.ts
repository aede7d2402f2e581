/** @file Rows as comma-separated values after RFC 4180; `domain/values/csv.ts` reads them back. */

/** Without a final newline. A line break in a cell becomes a space, because a row is one line. */
export const csvText = (rows: readonly (readonly string[])[]): string =>
  rows.map((row) => row.map(cell).join(",")).join("\n");

function cell(text: string): string {
  const line = text.replaceAll(/\s*[\r\n]+\s*/g, " ");
  return /[",]/.test(line) ? `"${line.replaceAll('"', '""')}"` : line;
}
