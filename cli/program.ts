/**
 * @file The command `orbweaver`: its verbs, and how every run of it ends.
 *
 * An error becomes one line on standard error and an exit status; with `--json` also the one JSON document on standard
 * output, unless the verb has printed one. Ctrl-C gives a verb two seconds to end by itself, then the command ends with 130.
 */

import { Command, CommanderError } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import { accountOf, errorLine } from "./error-line.ts";
import { EXIT, EXIT_CODE_HELP, JSON_ERROR_HELP } from "./exit-code.ts";
import type { Io } from "./io.ts";
import { configured, createKit, usageMessage, type Kit } from "./kit.ts";
import { packageVersion } from "./package-version.ts";
import { openSession as openRealSession, type OpenSession } from "./session.ts";
import { benchVerb } from "./verbs/bench.ts";
import { cancelVerb } from "./verbs/cancel.ts";
import { codecServerVerb } from "./verbs/codec-server.ts";
import { addCompletion } from "./verbs/completion.ts";
import { collectivesVerb } from "./verbs/collectives.ts";
import { downVerb } from "./verbs/down.ts";
import { drainVerb } from "./verbs/drain.ts";
import { explainVerb } from "./verbs/explain.ts";
import { fenceVerb } from "./verbs/fence.ts";
import { fleetVerb } from "./verbs/fleet.ts";
import { holdVerb } from "./verbs/hold.ts";
import { keysVerb } from "./verbs/keys.ts";
import { listVerb } from "./verbs/list.ts";
import { logsVerb } from "./verbs/logs.ts";
import { modelVerb } from "./verbs/model.ts";
import { planVerb } from "./verbs/plan.ts";
import { queueVerb } from "./verbs/queue.ts";
import { releaseVerb } from "./verbs/release.ts";
import { retryVerb } from "./verbs/retry.ts";
import { serveVerb } from "./verbs/serve.ts";
import { simulateVerb } from "./verbs/simulate.ts";
import { statusVerb } from "./verbs/status.ts";
import { submitVerb } from "./verbs/submit.ts";
import { superviseVerb } from "./verbs/supervise.ts";
import { undrainVerb } from "./verbs/undrain.ts";
import { upVerb } from "./verbs/up.ts";
import { agentVerb, workerVerb } from "./verbs/worker.ts";

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
  fleetVerb,
  modelVerb,
  collectivesVerb,
  drainVerb,
  undrainVerb,
  fenceVerb,
];
const PROCESS_VERBS = [workerVerb, agentVerb, serveVerb, superviseVerb, codecServerVerb, keysVerb];

const INTERRUPT_GRACE_MS = 2_000;

/** Runs the command with the words after its name and returns its exit status; never throws. */
export async function runCli(
  words: readonly string[],
  { io, openSession = openRealSession }: ProgramOptions,
): Promise<number> {
  let exitCode: number = EXIT.ok;
  let isPatient = false;
  const { own, commandLine } = splitCommandLine(words);
  const kit = createKit({
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
  const run = createProgram(kit)
    .parseAsync([...own], { from: "user" })
    .then(() => exitCode)
    .catch((error: unknown) => endOf(error, kit, own.includes("--json")));
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
export function createProgram(kit: Kit): Command {
  const program = configured(new Command("orbweaver"), kit.io)
    .description("Schedules GPU jobs over clusters; every job is a Temporal workflow.")
    .version(packageVersion(), "-V, --version", "print the version")
    .helpCommand("help [verb]", "show the help of a verb")
    .addHelpText("after", `\n${EXIT_CODE_HELP}\n\nStart here: orbweaver up`)
    .addHelpText("afterAll", ({ command }) => (hasJson(command) ? JSON_ERROR_HELP : ""));
  const add = (heading: string, verbs: readonly ((kit: Kit) => Command)[]): void => {
    program.commandsGroup(heading);
    for (const verb of verbs) program.addCommand(verb(kit));
  };
  add("Jobs:", JOB_VERBS);
  add("Fleet:", FLEET_VERBS);
  add("Processes:", PROCESS_VERBS);
  add("Measurements:", [benchVerb, simulateVerb]);
  program.commandsGroup("Shell:");
  addCompletion(program, kit);
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

function endOf(error: unknown, kit: Kit, isJson: boolean): number {
  const { io } = kit;
  const printError = (code: string, message: string): void => {
    if (isJson && !kit.hasPrintedJson()) kit.printJson({ error: { code, message } });
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
    io.stderr.write(`${error.stack ?? error.message}\n`);
  }
  return account.exitCode;
}
