/**
 * @file The command `orbweaver`: its verbs, and how every run of it ends.
 *
 * An error becomes one line on standard error and an exit status; with `--json` also the one JSON document on standard
 * output, unless the verb has printed one. Ctrl-C gives a verb two seconds to end by itself, then the command ends with 130.
 */

import { Command, CommanderError } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import { accountOf, errorLine } from "./terminal/error-line.ts";
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
import { openSession as openRealSession, type OpenSession } from "./command/session.ts";
import { benchVerb } from "./verbs/science/bench.ts";
import { cancelVerb } from "./verbs/jobs/cancel.ts";
import { codecServerVerb } from "./verbs/service/codec-server.ts";
import { addCompletion } from "./verbs/service/completion.ts";
import { collectivesVerb } from "./verbs/science/collectives.ts";
import { downVerb } from "./verbs/service/down.ts";
import { consoleVerb } from "./verbs/service/console.ts";
import { drainVerb } from "./verbs/fleet/drain.ts";
import { explainVerb } from "./verbs/jobs/explain.ts";
import { fenceVerb } from "./verbs/fleet/fence.ts";
import { fleetVerb } from "./verbs/fleet/fleet.ts";
import { holdVerb } from "./verbs/jobs/hold.ts";
import { keysVerb } from "./verbs/service/keys.ts";
import { listVerb } from "./verbs/jobs/list.ts";
import { logsVerb } from "./verbs/jobs/logs.ts";
import { modelVerb } from "./verbs/science/model.ts";
import { planVerb } from "./verbs/science/plan.ts";
import { queueVerb } from "./verbs/jobs/queue.ts";
import { releaseVerb } from "./verbs/jobs/release.ts";
import { retryVerb } from "./verbs/jobs/retry.ts";
import { serveVerb } from "./verbs/science/serve.ts";
import { simulateVerb } from "./verbs/science/simulate.ts";
import { statusVerb } from "./verbs/jobs/status.ts";
import { submitVerb } from "./verbs/jobs/submit.ts";
import { superviseVerb } from "./verbs/service/supervise.ts";
import { undrainVerb } from "./verbs/fleet/undrain.ts";
import { upVerb } from "./verbs/service/up.ts";
import { agentVerb, workerVerb } from "./verbs/service/worker.ts";

export interface ProgramOptions {
  readonly io: Io;
  /** How verbs reach Temporal; tests bring their own. */
  readonly openSession?: OpenSession;
}

const JOB_VERBS = [
  submitVerb,
  planVerb,
  listVerb,
  statusVerb,
  explainVerb,
  queueVerb,
  logsVerb,
  cancelVerb,
  retryVerb,
  holdVerb,
  releaseVerb,
];
const FLEET_VERBS = [
  upVerb,
  downVerb,
  consoleVerb,
  fleetVerb,
  modelVerb,
  collectivesVerb,
  drainVerb,
  undrainVerb,
  fenceVerb,
];
const PROCESS_VERBS = [workerVerb, agentVerb, serveVerb, superviseVerb, codecServerVerb, keysVerb];

const FIRST_STEPS = [
  ["orbweaver up", "start a small simulated fleet on this machine"],
  ["orbweaver submit --gpus 2 --follow -- sh -c 'echo rank $RANK'", "run a first job"],
  ["orbweaver list", "show the jobs"],
] as const;

const INTERRUPT_GRACE_MS = 2_000;

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
  const run = createProgram(context)
    .parseAsync([...own], { from: "user" })
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

/** All verbs on one commander program. */
function createProgram(context: CommandContext): Command {
  const program = configured(new Command("orbweaver"), context.io)
    .description("Schedules GPU jobs over clusters; every job is a Temporal workflow.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpCommand("help [verb]", "show the help of a verb")
    .addHelpText("after", helpEnd(FIRST_STEPS))
    .addHelpText("afterAll", ({ command }) => (hasJson(command) ? JSON_ERROR_HELP : ""));
  const add = (heading: string, verbs: readonly ((context: CommandContext) => Command)[]): void => {
    program.commandsGroup(heading);
    for (const verb of verbs) program.addCommand(verb(context));
  };
  add("Jobs:", JOB_VERBS);
  add("Fleet:", FLEET_VERBS);
  add("Processes:", PROCESS_VERBS);
  add("Measurements:", [benchVerb, simulateVerb]);
  addDocumentFormats(program, context);
  program.commandsGroup("Shell:");
  addCompletion(program, context);
  return program;
}

const hasJson = (command: Command): boolean =>
  command.options.some(({ long }) => long === "--json");

/**
 * The words of `submit` after `--` are somebody else's command line. Commander would mix them with the files before
 * them, so they are taken off first.
 */
function splitCommandLine(words: readonly string[]): {
  readonly own: readonly string[];
  readonly commandLine: readonly string[] | undefined;
} {
  const at = words.indexOf("--");
  if (words[0] !== "submit" || at === -1) return { own: words, commandLine: undefined };
  return { own: words.slice(0, at), commandLine: words.slice(at + 1) };
}

function endOf(error: unknown, context: CommandContext, isJson: boolean): number {
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
  const account = accountOf(error);
  printError(account.code, account.message);
  io.stderr.write(errorLine(account));
  if (io.env["ORBWEAVER_DEBUG"] !== undefined && error instanceof Error) {
    io.stderr.write(safeText(`${error.stack ?? error.message}\n`));
  }
  return account.exitCode;
}
