/**
 * @file `orbweaver completion bash|zsh|fish`: the script that makes a shell complete verbs, flags, their values, job ids, hosts, clusters, tenants.
 *
 * The script asks `orbweaver complete -- WORDS` at every TAB; @bomb.sh/tab answers from the program itself, so the
 * answer cannot drift from it. Ids come from Temporal, if it answers within a second; a TAB never shows an error.
 * The fleet is that which the words before name.
 * Shells expand what they are offered, so an id that is no plain word is never offered.
 */

import completions from "@bomb.sh/tab";
import tab from "@bomb.sh/tab/commander";
import type { Command } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import type { HostStatus } from "../../../scheduling/ledger/ledger.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import type { ConnectionOptionValues } from "../../command/connection-options.ts";
import { leadingWords, typedConnection } from "../../command/verb-first.ts";

const ANSWER_WITHIN_MS = 1_000;
const MAX_IDS = 200;
const PLAIN_WORD = /^[A-Za-z0-9._@+=/-]+$/;
/** Verbs that take jobs which have ended, too; the others take those alone that have not. */
const VERBS_OF_ENDED: ReadonlySet<string> = new Set(["status", "explain", "logs", "retry"]);
const JOB_ARGUMENT = /^job(\[:rank\])?$/;
/** Flags whose value is a job id, ended or not. */
const JOB_FLAGS: readonly string[] = ["job", "after", "than"];
/** Flags whose value is the name of a cluster. */
const CLUSTER_FLAGS: readonly string[] = ["cluster"];

/** Verbs whose arguments are hosts, with the hosts that they accept. */
const HOST_VERBS: ReadonlyMap<string, (status: HostStatus | undefined) => boolean> = new Map([
  ["drain", (status) => status?.isDrained !== true],
  ["undrain", (status) => status?.isDrained === true || status?.gpuDrains !== undefined],
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
      "Prints the script that makes a shell complete verbs, flags, their values, job ids, hosts, clusters and tenants.",
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
    if (command.name() !== "complete") return;
    // Options of all verbs may stand before the verb; the answer is about what follows them.
    const words = command.args.slice(leadingWords(command.args));
    command.processedArgs = [words];
    await offer({ program, context, words, connection: typedConnection(command.args) });
  });
}

interface Asked {
  readonly program: Command;
  readonly context: CommandContext;
  /** The verb first; the last one is what is completed. */
  readonly words: readonly string[];
  readonly connection: ConnectionOptionValues;
}

/** Makes the names known to the answer that follows: of what the flag before the last word takes, else of what the verb takes. */
async function offer(asked: Asked): Promise<void> {
  const { program, words } = asked;
  const [verb = "", below = ""] = words;
  const above = program.commands.find((command) => command.name() === verb);
  const command = above?.commands.find((one) => one.name() === below) ?? above;
  if (command === undefined) return;
  const name = command === above ? verb : `${verb} ${below}`;
  const answers = completions.commands.get(name);
  const flag = flagBefore(words);
  if (flag !== undefined) {
    const option = answers?.options.get(flag);
    const names = await namesOfFlag(asked, flag);
    if (option !== undefined && names !== undefined) option.handler = teller(names);
    return;
  }
  const argument = command.registeredArguments[0]?.name() ?? "";
  const names = await namesOfArgument(asked, { verb, argument });
  if (names !== undefined) answers?.argument(argument, teller(names), true);
}

interface Name {
  readonly word: string;
  readonly about: string;
}

/** `queue hold --tenant <TAB>` and `--tenant=<TAB>`. */
function flagBefore(words: readonly string[]): string | undefined {
  const [, joined] = /^--([a-z-]+)=/.exec(words.at(-1) ?? "") ?? [];
  return joined ?? /^--([a-z-]+)$/.exec(words.at(-2) ?? "")?.[1];
}

const teller =
  (names: readonly Name[]) =>
  (complete: (word: string, about: string) => void): void => {
    for (const { word, about } of names) complete(word, about);
  };

function namesOfFlag(asked: Asked, flag: string): Promise<readonly Name[]> | undefined {
  if (flag === "tenant") return tenants(asked);
  if (CLUSTER_FLAGS.includes(flag)) return clusters(asked);
  return JOB_FLAGS.includes(flag) ? jobs(asked, true) : undefined;
}

function namesOfArgument(
  asked: Asked,
  { verb, argument }: { readonly verb: string; readonly argument: string },
): Promise<readonly Name[]> | undefined {
  if (JOB_ARGUMENT.test(argument)) return jobs(asked, VERBS_OF_ENDED.has(verb));
  if (argument === "cluster") return clusters(asked);
  const isMeant = HOST_VERBS.get(verb);
  return isMeant && hosts(asked, isMeant);
}

/** A description of several lines would offer each line as a word. */
function withOneLineDescriptions(program: Command, work: () => void): void {
  const commands = program.commands.flatMap((command) => [command, ...command.commands]);
  const full = commands.map((command) => command.description());
  for (const command of commands) command.description(command.summary());
  work();
  commands.forEach((command, index) => command.description(full[index] ?? ""));
}

const hosts = (
  { context, connection }: Asked,
  isMeant: (status: HostStatus | undefined) => boolean,
): Promise<readonly Name[]> =>
  inTime(
    context.withSession(connection, async ({ client }) => {
      const { shape, hosts: states } = await client.fleet();
      return shape.clusters
        .flatMap((cluster) => cluster.hosts)
        .filter(({ id }) => isMeant(states.get(id)))
        .map(({ id, gpuCount, gpuType }) => ({
          word: id,
          about: `${String(gpuCount)} ${gpuType}`,
        }));
    }),
  );

const clusters = ({ context, connection }: Asked): Promise<readonly Name[]> =>
  inTime(
    context.withSession(connection, async ({ client }) => {
      const { shape } = await client.fleet();
      return shape.clusters.map(({ id }) => ({ word: id, about: "cluster" }));
    }),
  );

const tenants = ({ context, connection }: Asked): Promise<readonly Name[]> =>
  inTime(
    context.withSession(connection, async ({ client }) => {
      const { shape, requests, leases } = await client.fleet();
      const named = shape.tenants.map(({ id }) => id);
      const active = [...requests.values(), ...leases.values()].map(({ tenant }) => tenant);
      return [...new Set([...named, ...active])].map((word) => ({ word, about: "tenant" }));
    }),
  );

const jobs = ({ context, connection }: Asked, hasEnded: boolean): Promise<readonly Name[]> =>
  inTime(
    context.withSession(connection, async ({ client }) => {
      const found: Name[] = [];
      for await (const { jobId, state } of client.list({ all: hasEnded, limit: MAX_IDS }))
        found.push({ word: jobId, about: state });
      return found;
    }),
  );

/** Nothing when it fails or takes longer than a TAB may. */
async function inTime(found: Promise<readonly Name[]>): Promise<readonly Name[]> {
  const names = await Promise.race([found.catch(() => []), sleep(ANSWER_WITHIN_MS, [])]);
  return names.filter(({ word }) => PLAIN_WORD.test(word));
}
