/** @file The context of every verb: the outside world, a way to Temporal, and one way to answer and to end. */

import { Command } from "commander";
import { stringify } from "yaml";
import type { ConnectionOptionValues } from "./connection-options.ts";
import { coloursFor, type Colours } from "../terminal/colour.ts";
import { EXIT_CODE_HELP } from "../terminal/exit-code.ts";
import type { Io } from "../terminal/io.ts";
import { safeJson, safeText } from "../terminal/safe-text.ts";
import type { FleetSession } from "./service-session.ts";
import type { OpenSession, Session } from "./session.ts";

export interface CommandContext {
  readonly io: Io;
  /** The words after `--`, of the verbs that take a command line. */
  readonly commandLine: readonly string[] | undefined;
  /** A subcommand whose usage errors all end the same way. */
  readonly verb: (name: string) => Command;
  readonly withSession: <T>(
    values: ConnectionOptionValues,
    work: (session: Session) => Promise<T>,
  ) => Promise<T>;
  /** By the submit service that flags or environment name, else by Temporal. */
  readonly withFleet: <T>(
    values: ConnectionOptionValues,
    work: (session: FleetSession) => Promise<T>,
  ) => Promise<T>;
  /** As `withFleet`, for what only reads and prints nothing: it begins while the server is reached and the key is checked. */
  readonly readFleet: <T>(
    values: ConnectionOptionValues,
    read: (session: FleetSession) => Promise<T>,
  ) => Promise<T>;
  /** A line of the answer, on standard output. */
  readonly print: (text: string) => void;
  /** The answer as the one document on standard output: JSON, or YAML once `writeYaml` was called. */
  readonly printJson: (document: unknown) => void;
  readonly writeYaml: () => void;
  /** Whether `printJson` has printed it. */
  readonly hasPrintedJson: () => boolean;
  /** A line for people, on standard error. */
  readonly say: (text: string) => void;
  /** Colours of the answer. */
  readonly colours: Colours;
  /** Sets the exit status of a verb that ends without an error; 0 when it is not called. */
  readonly exitWith: (code: number) => void;
  /** Declares that the verb ends by itself after Ctrl-C, however long that takes. */
  readonly endsByItself: () => void;
}

export interface CommandContextParts {
  readonly io: Io;
  readonly openSession: OpenSession;
  readonly commandLine: readonly string[] | undefined;
  readonly exitWith: (code: number) => void;
  readonly endsByItself: () => void;
}

export function createCommandContext({
  io,
  openSession,
  commandLine,
  exitWith,
  endsByItself,
}: CommandContextParts): CommandContext {
  let hasPrinted = false;
  let isYaml = false;
  const inSession = async <T>(
    values: ConnectionOptionValues,
    use: (session: Session) => Promise<T>,
  ): Promise<T> => {
    const session = await openSession(values, io);
    try {
      return await use(session);
    } finally {
      await session.close();
    }
  };
  const withSession: CommandContext["withSession"] = (values, work) =>
    inSession(values, async (session) => {
      await session.ready;
      return await work(session);
    });
  const throughService = async <T>(
    values: ConnectionOptionValues,
    { work, orElse }: FleetWork<T>,
  ): Promise<T> => {
    const { configuredService, serviceSession } = await import("./service-session.ts");
    const address = configuredService(values, io);
    return address === undefined ? await orElse() : await work(serviceSession(address, values, io));
  };
  return {
    io,
    commandLine,
    exitWith,
    endsByItself,
    verb: (name) => configured(new Command(name), io),
    withSession,
    withFleet: (values, work) =>
      throughService(values, {
        work,
        orElse: () => withSession(values, (session) => work(directly(session))),
      }),
    readFleet: (values, work) =>
      throughService(values, {
        work,
        orElse: () =>
          inSession(values, async (session) => {
            const reading = work(directly(session));
            // It fails below, after the reason for which the server is not reached or the key is not the fleet's.
            reading.catch(() => undefined);
            await session.ready;
            return await reading;
          }),
      }),
    print: (text) => io.stdout.write(`${safeText(text)}\n`),
    printJson: (document) => {
      hasPrinted = true;
      const json = safeJson(JSON.stringify(document, null, 2));
      // Through JSON, so that both forms have the same members.
      io.stdout.write(isYaml ? safeText(stringify(JSON.parse(json))) : `${json}\n`);
    },
    writeYaml: () => {
      isYaml = true;
    },
    hasPrintedJson: () => hasPrinted,
    say: (text) => io.stderr.write(`${safeText(text)}\n`),
    colours: coloursFor(io.stdout, io.env),
  };
}

interface FleetWork<T> {
  readonly work: (session: FleetSession) => Promise<T>;
  /** Where no submit service is configured. */
  readonly orElse: () => Promise<T>;
}

const directly = (session: Session): FleetSession => ({
  fleet: session.fleet,
  client: session.client,
  direct: session,
});

/** Help for a screen of 80 columns, one line for a usage error, and an exception instead of an exit. */
export function configured(command: Command, io: Io): Command {
  return command
    .configureHelp({ helpWidth: HELP_WIDTH })
    .configureOutput({
      writeOut: (text) => io.stdout.write(text),
      writeErr: (text) => io.stderr.write(text),
      outputError: (text, write) => {
        write(safeText(usageErrorLine(text)));
      },
    })
    .showSuggestionAfterError(true)
    .exitOverride();
}

const HELP_WIDTH = 80;

const usageErrorLine = (text: string): string => `error BAD_INPUT: ${usageMessage(text)}\n`;

/** Commander's `error: unknown option '--gpu'\n(Did you mean --gpus?)` as one line. */
export function usageMessage(text: string): string {
  const [what = "", ...hints] = text.trim().split("\n");
  const hint = hints.map((line) => ` ${line.trim()}`).join("");
  return `${what.replace(/^error: /, "")}${hint}`;
}

/** The end of a verb's help: examples, and the meaning of the exit status. */
export function helpEnd(
  examples: readonly (readonly [commandLine: string, what: string])[],
  exitCodes: string = EXIT_CODE_HELP,
): string {
  const lines = examples.map(([commandLine, what]) => `  # ${what}\n${exampleLines(commandLine)}`);
  return `\nExamples:\n${lines.join("\n")}\n\n${exitCodes}`;
}

/** A long one goes on in a next line before an option, as a shell reads it. */
function exampleLines(commandLine: string): string {
  const lines: string[] = [];
  let line = "  $";
  for (const [at, part] of commandLine.split(OPTION_OUTSIDE_QUOTES).entries()) {
    // Behind all lines but the last stands a backslash.
    if (at > 0 && `${line} ${part} \\`.length > HELP_WIDTH) {
      lines.push(`${line} \\`);
      line = "     ";
    }
    line += ` ${part}`;
  }
  return [...lines, line].join("\n");
}

/** The space before a word that begins with a dash; an even number of quotes follows. */
const OPTION_OUTSIDE_QUOTES = / (?=-[-a-zA-Z])(?=(?:[^']*'[^']*')*[^']*$)/;
