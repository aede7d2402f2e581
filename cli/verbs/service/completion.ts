/**
 * @file `orbweaver completion bash|zsh|fish`: the script that makes a shell complete verbs, flags, their values, job ids, hosts, tenants.
 *
 * The script asks `orbweaver complete -- WORDS` at every TAB; @bomb.sh/tab answers from the program itself, so the
 * answer cannot drift from it. Ids come from Temporal, if it answers within a second; a TAB never shows an error.
 * Shells expand what they are offered, so an id that is no plain word is never offered.
 */

import completions from "@bomb.sh/tab";
import tab from "@bomb.sh/tab/commander";
import type { Command } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import type { HostStatus } from "../../../scheduling/ledger/ledger.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";

const ANSWER_WITHIN_MS = 1_000;
const MAX_IDS = 200;
const PLAIN_WORD = /^[A-Za-z0-9._@+=/-]+$/;
/** Verbs whose arguments are job ids, and whether jobs that have ended are among them. */
const JOB_VERBS: ReadonlyMap<string, boolean> = new Map([
  ["status", true],
  ["explain", true],
  ["logs", true],
  ["attach", false],
  ["cancel", false],
  ["retry", false],
  ["update", false],
  ["top", false],
  ["suspend", false],
  ["resume", false],
  ["requeue", false],
  ["move", false],
  ["hold", false],
  ["release", false],
]);

/** Verbs whose arguments are hosts, with the hosts that they accept. */
const HOST_VERBS: ReadonlyMap<string, (status: HostStatus | undefined) => boolean> = new Map([
  ["drain", (status) => status?.isDrained !== true],
  ["undrain", (status) => status?.isDrained === true],
  ["fence", (status) => status?.isFenced !== true && !isAnswering(status)],
]);

const isAnswering = (status: HostStatus | undefined): boolean =>
  status?.agent !== undefined && status.silentSinceMs === undefined;

/** The functions that the bash script takes from the bash-completion package, for shells without it. */
const BASH_PRELUDE = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
_get_comp_words_by_ref() {
    cur=\${COMP_WORDS[COMP_CWORD]}
    prev=\${COMP_WORDS[COMP_CWORD-1]}
    words=("\${COMP_WORDS[@]}")
    cword=$COMP_CWORD
}
fi
`;

/** Adds `completion` and the hidden `complete`; all other verbs must be there already. */
export function addCompletion(program: Command, context: CommandContext): void {
  withOneLineDescriptions(program, () => {
    tab(program, { completionCommandName: "completion" });
  });
  program.commands
    .find((command) => command.name() === "completion")
    ?.summary("print a completion script for a shell")
    .description(
      "Prints the script that makes a shell complete verbs, flags, their values, job ids, hosts and tenants.",
    )
    .addHelpText(
      "after",
      helpEnd([
        ["source <(orbweaver completion bash)", "in ~/.bashrc"],
        ["source <(orbweaver completion zsh)", "in ~/.zshrc, after compinit"],
        ["orbweaver completion fish > ~/.config/fish/completions/orbweaver.fish", "once, for fish"],
      ]),
    );
  program.hook("preAction", async (_program, command) => {
    const [word = ""] = command.args;
    if (command.name() === "completion" && word === "bash") context.io.stdout.write(BASH_PRELUDE);
    if (command.name() === "complete") {
      await offerJobs(context, word);
      await offerHosts(context, word);
      await offerTenants(context, command.args);
    }
  });
}

/** A description of several lines would offer each line as a word. */
function withOneLineDescriptions(program: Command, work: () => void): void {
  const commands = program.commands.flatMap((command) => [command, ...command.commands]);
  const full = commands.map((command) => command.description());
  for (const command of commands) command.description(command.summary());
  work();
  commands.forEach((command, index) => command.description(full[index] ?? ""));
}

/** Makes the ids of jobs known to the answer that follows. */
async function offerJobs(context: CommandContext, verb: string): Promise<void> {
  const hasEnded = JOB_VERBS.get(verb);
  if (hasEnded === undefined) return;
  const jobs = await recentJobs(context, hasEnded);
  completions.commands.get(verb)?.argument(
    "job",
    (complete) => {
      for (const { jobId, state } of jobs) complete(jobId, state);
    },
    true,
  );
}

/** Makes the hosts of the fleet known to the answer that follows. */
async function offerHosts(context: CommandContext, verb: string): Promise<void> {
  const isMeant = HOST_VERBS.get(verb);
  if (isMeant === undefined) return;
  const found = context.withSession({}, async ({ client }) => {
    const { shape, hosts } = await client.fleet();
    return shape.clusters
      .flatMap((cluster) => cluster.hosts)
      .filter(({ id }) => PLAIN_WORD.test(id))
      .filter(({ id }) => isMeant(hosts.get(id)));
  });
  const hosts = await inTime(found);
  completions.commands.get(verb)?.argument(
    "host",
    (complete) => {
      for (const { id, gpuCount, gpuType } of hosts) complete(id, `${String(gpuCount)} ${gpuType}`);
    },
    true,
  );
}

/** Makes the tenants of the fleet known to the answer that follows, where it is about a tenant. */
async function offerTenants(context: CommandContext, words: readonly string[]): Promise<void> {
  const [verb = "", below = ""] = words;
  const command = completions.commands.get(`${verb} ${below}`) ?? completions.commands.get(verb);
  const option = command?.options.get("tenant");
  const isAsked = words.at(-2) === "--tenant" || words.at(-1)?.startsWith("--tenant=") === true;
  if (option === undefined || !isAsked) return;
  const found = context.withSession({}, async ({ client }) => {
    const { shape, requests, leases } = await client.fleet();
    const named = shape.tenants.map(({ id }) => id);
    const active = [...requests.values(), ...leases.values()].map(({ tenant }) => tenant);
    return [...new Set([...named, ...active])].filter((tenant) => PLAIN_WORD.test(tenant));
  });
  const tenants = await inTime(found);
  option.handler = (complete) => {
    for (const tenant of tenants) complete(tenant, "tenant");
  };
}

/** The answer, or nothing when it fails or takes longer than a TAB may. */
async function inTime<T>(found: Promise<readonly T[]>): Promise<readonly T[]> {
  const none: readonly T[] = [];
  return await Promise.race([found.catch(() => none), sleep(ANSWER_WITHIN_MS, none)]);
}

interface JobWord {
  readonly jobId: string;
  readonly state: string;
}

async function recentJobs(context: CommandContext, hasEnded: boolean): Promise<readonly JobWord[]> {
  const found = context.withSession({}, async ({ client }) => {
    const jobs: JobWord[] = [];
    for await (const job of client.list({ all: hasEnded, limit: MAX_IDS })) {
      if (PLAIN_WORD.test(job.jobId)) jobs.push(job);
    }
    return jobs;
  });
  return await inTime(found);
}
