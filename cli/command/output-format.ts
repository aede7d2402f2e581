/** @file `-o json|yaml` on every verb that has `--json`: other names for the same document. */

import { Option, type Command } from "commander";
import type { CommandContext } from "./command-context.ts";

/** Adds the option below `program`, where a verb has no `--output` of its own; a verb's own `json` and `yaml` mean the same. */
export function addDocumentFormats(program: Command, context: CommandContext): void {
  for (const command of program.commands) {
    addDocumentFormats(command, context);
    const has = (flag: string): boolean => command.options.some(({ long }) => long === flag);
    if (!has("--json")) continue;
    if (!has("--output"))
      command.addOption(
        new Option("-o, --output <format>", "the same document as JSON or YAML").choices([
          "json",
          "yaml",
        ]),
      );
    else if (!command.options.some(({ argChoices }) => argChoices?.includes("yaml") === true))
      continue;
    command.on("option:output", (format: string) => {
      if (format !== "json" && format !== "yaml") return;
      command.setOptionValue("json", true);
      if (format === "yaml") context.writeYaml();
    });
  }
}

/** Whether the words of a command line ask for one document, as far as that can be told of a line with errors. */
export const wantsDocument = (words: readonly string[]): boolean =>
  words.includes("--json") ||
  words.some(
    (word, at) =>
      /^(--output=|-o=?)(json|yaml)$/.test(word) ||
      (/^(-o|--output)$/.test(word) && /^(json|yaml)$/.test(words[at + 1] ?? "")),
  );
