/**
 * @file Ranges in host names, in Slurm's notation: `h100-[26-29]`, `node[001-016,020]`, `r[1-2]n[1-8]`.
 *
 * A number with leading zeros keeps its width. Several brackets give all combinations, the last one varying fastest.
 */

import { shown } from "./file-problem.ts";
import type { Reading } from "./quantity.ts";

export const MAX_HOSTS = 10_000;

/** For JSON Schema; `expandHosts` does the full check. */
export const HOST_RANGE_PATTERN = "[A-Za-z0-9]([A-Za-z0-9._-]|\\[\\d+(-\\d+)?(,\\d+(-\\d+)?)*\\])*";

const WHOLE = new RegExp(`^${HOST_RANGE_PATTERN}$`);
const MAX_CHARS = 200;

/** The names in the order written; at most `MAX_HOSTS`. */
export function expandHosts(
  text: string,
  maxChars: number = MAX_CHARS,
): Reading<readonly string[]> {
  const refuse = (message: string, remedy: string): Reading<never> => ({
    kind: "refused",
    message,
    remedy,
  });
  if (text.length > maxChars || !WHOLE.test(text)) {
    const remedy = "write letters, digits, ., _ and -, and ranges such as node[01-16]";
    return refuse(`${shown(text)} is not a host name`, remedy);
  }
  let names = [""];
  for (const [part] of text.matchAll(/\[[^\]]*\]|[^[]+/g)) {
    const choices = part.startsWith("[") ? numbersOf(part.slice(1, -1)) : [part];
    if (typeof choices === "string")
      return refuse(`range ${shown(choices)} runs backwards`, "write the smaller number first");
    if (choices.length * names.length > MAX_HOSTS) {
      return refuse(`${shown(text)} names more than ${MAX_HOSTS} hosts`, "shorten the range");
    }
    names = names.flatMap((name) => choices.map((choice) => name + choice));
  }
  return { kind: "read", value: names };
}

/** The numbers of a bracket as they appear in names, or the range that runs backwards. */
function numbersOf(bracket: string): readonly string[] | string {
  const numbers: string[] = [];
  for (const range of bracket.split(",")) {
    const [first = "", last = first] = range.split("-");
    if (Number(last) < Number(first)) return range;
    const width = first.startsWith("0") ? first.length : 0;
    // Expands at most one more than allowed, so a range of millions costs nothing.
    const end = Math.min(Number(last), Number(first) + MAX_HOSTS);
    for (let number = Number(first); number <= end; number += 1) {
      numbers.push(String(number).padStart(width, "0"));
    }
    if (numbers.length > MAX_HOSTS) return numbers;
  }
  return numbers;
}
