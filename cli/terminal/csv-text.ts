/** @file Rows as comma-separated values after RFC 4180; `domain/values/csv.ts` reads them back. */

/**
 * Without a final newline. A line break in a cell becomes a space, because a row is one line. Text that a spreadsheet would take for a formula
 * gets an apostrophe in front, because names in it may come from anybody.
 */
export const csvText = (rows: readonly (readonly string[])[]): string =>
  rows.map((row) => row.map(cell).join(",")).join("\n");

function cell(text: string): string {
  const joined = text.replaceAll(/\s*[\r\n]+\s*/g, " ");
  const isFormula = /^[=+@\t-]./.test(joined) && Number.isNaN(Number(joined));
  const line = isFormula ? `'${joined}` : joined;
  return /[",]/.test(line) ? `"${line.replaceAll('"', '""')}"` : line;
}
