/**
 * @file `orbweaver completion bash|zsh|fish`: the script that makes a shell complete verbs, flags, their values, and job ids.
 *
 * The script asks `orbweaver complete -- WORDS` at every TAB; @bomb.sh/tab answers from the program itself, so the
 * answer cannot drift from it. Job ids come from Temporal, if it answers within a second; a TAB never shows an error.
 */

import completions from "@bomb.sh/tab";
import tab from "@bomb.sh/tab/commander";
import type { Command } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import { helpEnd, type Kit } from "../kit.ts";

const ANSWER_WITHIN_MS = 1_000;
const MAX_IDS = 200;
/** Verbs whose arguments are job ids, and whether jobs that have ended are among them. */
const JOB_VERBS: ReadonlyMap<string, boolean> = new Map([
  ["status", true],
  ["explain", true],
  ["logs", true],
  ["cancel", false],
  ["hold", false],
  ["release", false],
]);

/** Adds `completion` and the hidden `complete`; all other verbs must be there already. */
export function addCompletion(program: Command, kit: Kit): void {
  tab(program, { completionCommandName: "completion" });
  program.commands
    .find((command) => command.name() === "completion")
    ?.summary("print a completion script for a shell")
    .description(
      "Prints the script that makes a shell complete verbs, flags, their values, and job ids.",
    )
    .addHelpText(
      "after",
      helpEnd([
        ["source <(orbweaver completion bash)", "in ~/.bashrc; the same with zsh in ~/.zshrc"],
        ["orbweaver completion fish > ~/.config/fish/completions/orbweaver.fish", "for fish"],
      ]),
    );
  program.hook("preAction", async (_program, command) => {
    const [verb = ""] = command.args;
    const hasEnded = JOB_VERBS.get(verb);
    if (command.name() !== "complete" || hasEnded === undefined) return;
    const ids = await recentJobs(kit, hasEnded);
    completions.commands.get(verb)?.argument(
      "job",
      (complete) => {
        for (const { jobId, state } of ids) complete(jobId, state);
      },
      true,
    );
  });
}

interface JobWord {
  readonly jobId: string;
  readonly state: string;
}

async function recentJobs(kit: Kit, hasEnded: boolean): Promise<readonly JobWord[]> {
  const found = kit.withSession({}, async ({ client }) => {
    const ids: JobWord[] = [];
    for await (const job of client.list({ all: hasEnded, limit: MAX_IDS })) ids.push(job);
    return ids;
  });
  const none: readonly JobWord[] = [];
  return await Promise.race([found.catch(() => none), sleep(ANSWER_WITHIN_MS, none)]);
}
