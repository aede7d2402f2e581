/** @file All commands of the command line, verbs of verbs included, for tests that look at each. */

import type { Command } from "commander";
import { createCommandContext, type CommandContext } from "../../cli/command/command-context.ts";
import { VERB_GROUPS } from "../../cli/verb-list.ts";

const never = (): never => {
  throw new Error("no verb acts while it is made");
};

/** A context in which verbs can be made and words parsed, and nothing can be done. */
export const idleContext = (commandLine?: readonly string[]): CommandContext =>
  createCommandContext({
    io: {
      ...{ stdout: process.stdout, stderr: process.stderr, readInput: never },
      ...{ env: {}, cwd: "/", nowMs: never, interrupted: new AbortController().signal },
    },
    ...{ openSession: never, commandLine, exitWith: never, endsByItself: never },
  });

/** The words of each command. */
export async function everyVerb(): Promise<readonly (readonly string[])[]> {
  const found: (readonly string[])[] = [];
  const take = (verb: Command, before: readonly string[]): void => {
    const words = [...before, verb.name()];
    found.push(words);
    for (const each of verb.commands) take(each, words);
  };
  const context = idleContext();
  for (const { load } of VERB_GROUPS.flatMap(({ verbs }) => verbs))
    take((await load())(context), []);
  return [...found, ["completion"]];
}
