/**
 * @file A text from outside as clean lines: any line ending, no byte-order mark, no terminal colours.
 *
 * Limits keep a hostile or mistaken file (a core dump, a video) from costing more than a look at its size.
 */

import { refuse, type Refused } from "./problem.ts";

/** Generous for a log or table, far below what would trouble a worker. */
const MAX_TEXT_CHARS = 16 * 1024 * 1024;

// Control sequences as terminals know them: ESC [ parameters letter. nvidia-smi underlines its header so.
const TERMINAL_CODES = /\u001b\[[0-9;?]*[A-Za-z]/g;

export function cleanLines(text: string): string[] {
  return text
    .replace(/^\ufeff/, "")
    .replace(TERMINAL_CODES, "")
    .replaceAll("\u00a0", " ")
    .split(/\r\n|\n|\r/);
}

/** A refusal if the text is empty or too long to be what it should be, else `undefined`. */
export function refuseBySize(
  text: string,
  source: string,
  { what, maxChars = MAX_TEXT_CHARS }: { readonly what: string; readonly maxChars?: number },
): Refused | undefined {
  if (text.length > maxChars) {
    const message = `${text.length} characters are too many for ${what}; at most ${maxChars} are read`;
    return refuse(source, [{ line: 1, message, remedy: `give ${what} alone` }]);
  }
  if (text.trim() === "") {
    return refuse(source, [{ line: 1, message: "the text is empty", remedy: `give ${what}` }]);
  }
  return undefined;
}

/** Spaces for tabs at the usual stops of eight, so that character positions are columns on screen. */
export function expandTabs(line: string): string {
  if (!line.includes("\t")) return line;
  let wide = "";
  for (const char of line) wide += char === "\t" ? " ".repeat(8 - (wide.length % 8)) : char;
  return wide;
}
