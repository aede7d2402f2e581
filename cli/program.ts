/**
 * @file The command `orbweaver`: its verbs, and how every run of it ends.
 *
 * An error becomes one line on standard error and an exit status; with `--json` also the one JSON document on standard
 * output, unless the verb has printed one. Ctrl-C gives a verb two seconds to end by itself, then the command ends with 130.
 */

import { Command, CommanderError } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import { EXIT, JSON_ERROR_HELP } from "./terminal/exit-code.ts";
import type { Io } from "./terminal/io.ts";
import { safeText } from "./terminal/safe-text.ts";
import {
  configured,
  createCommandContext,
  helpEnd,
  usageMessage,
  type CommandContext,
} from "./command/command-context.ts";
import { addDocumentFormats, wantsDocument } from "./command/output-format.ts";
import { packageVersion } from "./command/package-version.ts";
import { verbFirst } from "./command/verb-first.ts";
import type { OpenSession } from "./command/session.ts";
import { VERB_GROUPS, type VerbEntry } from "./verb-list.ts";

export interface ProgramOptions {
  readonly io: Io;
  /** How verbs reach Temporal; tests bring their own. */
  readonly openSession?: OpenSession;
}

const FIRST_STEPS = [
  ["orbweaver up", "start a small simulated fleet on this machine"],
  ["orbweaver run --gpus 2 -- sh -c 'echo rank $RANK'", "run a first job"],
  ["orbweaver list", "show the jobs"],
] as const;

const INTERRUPT_GRACE_MS = 2_000;
const COMMAND_LINE_VERBS: readonly string[] = ["submit", "run", "exec"];

/** Runs the command with the words after its name and returns its exit status; never throws. */
export async function runCli(
  words: readonly string[],
  { io, openSession = openRealSession }: ProgramOptions,
): Promise<number> {
  let exitCode: number = EXIT.ok;
  let isPatient = false;
  const { own, commandLine } = splitCommandLine(verbFirst(words));
  const context = createCommandContext({
    io,
    openSession,
    commandLine,
    exitWith: (code) => {
      exitCode = code;
    },
    endsByItself: () => {
      isPatient = true;
    },
  });
  const run = createProgram(context, own[0])
    .then((program) => program.parseAsync([...own], { from: "user" }))
    .then(() => exitCode)
    .catch((error: unknown) => endOf(error, context, wantsDocument(own)));
  const interrupted = new Promise<number>((resolve) => {
    const end = (): void => {
      if (isPatient) return;
      void sleep(INTERRUPT_GRACE_MS, EXIT.interrupted, { ref: false }).then(resolve);
    };
    io.interrupted.addEventListener("abort", end, { once: true });
  });
  return await Promise.race([run, interrupted]);
}

/** The session of `command/session.ts`, which loads Temporal's client. */
const openRealSession: OpenSession = async (values, io) =>
  await (await import("./command/session.ts")).openSession(values, io);

/** One commander program: of the verb that the first word names, or of all verbs where it names none (help, completion, a slip of the pen). */
export async function createProgram(
  context: CommandContext,
  word: string | undefined,
): Promise<Command> {
  const program = configured(new Command("orbweaver"), context.io)
    .description("Schedules GPU jobs over clusters; every job is a Temporal workflow.")
    // What follows a verb is the verb's own, also where the verb has verbs of its own (`queue hold --json`).
    .enablePositionalOptions()
    .version(packageVersion(), "-V, --version", "print the version")
    .helpCommand("help [verb]", "show the help of a verb")
    .addHelpText("after", helpEnd(FIRST_STEPS))
    .addHelpText("afterAll", ({ command }) => (hasJson(command) ? JSON_ERROR_HELP : ""));
  const isNamed = ({ names }: VerbEntry): boolean => word !== undefined && names.includes(word);
  const named = VERB_GROUPS.flatMap(({ verbs }) => verbs).find(isNamed);
  if (named !== undefined) {
    program.addCommand((await named.load())(context));
    addDocumentFormats(program, context);
    return program;
  }
  for (const { heading, verbs } of VERB_GROUPS) {
    program.commandsGroup(heading);
    for (const { load } of verbs) program.addCommand((await load())(context));
  }
  addDocumentFormats(program, context);
  program.commandsGroup("Shell:");
  const { addCompletion } = await import("./verbs/service/completion.ts");
  addCompletion(program, context);
  return program;
}

const hasJson = (command: Command): boolean =>
  command.options.some(({ long }) => long === "--json");

/**
 * The words of these verbs after `--` are somebody else's command line. Commander would mix them with the files before
 * them, so they are taken off first.
 */
export function splitCommandLine(words: readonly string[]): {
  readonly own: readonly string[];
  readonly commandLine: readonly string[] | undefined;
} {
  const at = words.indexOf("--");
  if (!COMMAND_LINE_VERBS.includes(words[0] ?? "") || at === -1)
    return { own: words, commandLine: undefined };
  return { own: words.slice(0, at), commandLine: words.slice(at + 1) };
}

async function endOf(error: unknown, context: CommandContext, isJson: boolean): Promise<number> {
  const { io } = context;
  const printError = (code: string, message: string): void => {
    if (isJson && !context.hasPrintedJson()) context.printJson({ error: { code, message } });
  };
  if (error instanceof CommanderError) {
    // Commander has said its line already; asking for help or the version is no error.
    if (error.exitCode === 0) return EXIT.ok;
    printError("BAD_INPUT", usageMessage(error.message));
    return EXIT.usage;
  }
  // Knows the errors of Temporal's client, so it loads that.
  const { accountOf, errorLine } = await import("./terminal/error-line.ts");
  const account = accountOf(error);
  printError(account.code, account.message);
  io.stderr.write(errorLine(account));
  if (io.env["ORBWEAVER_DEBUG"] !== undefined && error instanceof Error) {
    io.stderr.write(safeText(`${error.stack ?? error.message}\n`));
  }
  return account.exitCode;
}
