/**
 * @file Options of all verbs may also stand before the verb: `orbweaver --fleet eu list` is `orbweaver list --fleet eu`.
 *
 * Only those that every verb with a connection knows, so that it is certain which of them take a value.
 */

import { Command } from "commander";
import { addConnectionOptions } from "./connection-options.ts";

const SHARED = addConnectionOptions(new Command()).option("--json");

/** The words with leading options after all others, but before `--`; unchanged where the first words are no such options. */
export function verbFirst(words: readonly string[]): readonly string[] {
  let at = 0;
  for (;;) {
    const [flag = "", value] = (words[at] ?? "").split("=", 2);
    const option = SHARED.options.find(({ long }) => long === flag);
    if (option === undefined) break;
    at += option.required && value === undefined ? 2 : 1;
  }
  if (at === 0 || at >= words.length) return words;
  const rest = words.slice(at);
  const end = rest.indexOf("--");
  const own = end === -1 ? rest : rest.slice(0, end);
  return [...own, ...words.slice(0, at), ...rest.slice(own.length)];
}
