/**
 * @file Options of all verbs may also stand before the verb: `orbweaver --fleet eu list` is `orbweaver list --fleet eu`.
 *
 * Only those that every verb with a connection or a document knows, so that it is certain which of them take a value.
 */

import { Command } from "commander";
import { addServiceOptions, type ConnectionOptionValues } from "./connection-options.ts";

const withShared = (): Command =>
  addServiceOptions(new Command()).option("--json").option("-o, --output <format>");

const SHARED = withShared();

/** How many words before the verb are options of all verbs, with their values. */
export function leadingWords(words: readonly string[]): number {
  let at = 0;
  for (;;) {
    const [flag = "", value] = (words[at] ?? "").split("=", 2);
    const option = SHARED.options.find(({ long, short }) => long === flag || short === flag);
    if (option === undefined) return at;
    at += option.required && value === undefined ? 2 : 1;
  }
}

/** The words with leading options after all others, but before `--`; unchanged where the first words are no such options. */
export function verbFirst(words: readonly string[]): readonly string[] {
  const at = leadingWords(words);
  if (at === 0 || at >= words.length) return words;
  const rest = words.slice(at);
  const end = rest.indexOf("--");
  const own = end === -1 ? rest : rest.slice(0, end);
  return [...own, ...words.slice(0, at), ...rest.slice(own.length)];
}

/** What unfinished words say of the fleet and the connection, wherever it stands among them; nothing where they cannot be read. */
export function typedConnection(words: readonly string[]): ConnectionOptionValues {
  const reader = withShared()
    .allowUnknownOption()
    .allowExcessArguments()
    .helpOption(false)
    .exitOverride()
    .configureOutput({ writeErr: () => undefined });
  try {
    return reader.parse([...words], { from: "user" }).opts<ConnectionOptionValues>();
  } catch {
    return {};
  }
}
