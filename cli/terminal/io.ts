/** @file The outside world of one run of the command: streams, environment, clock, interruption. Tests supply their own. */

import { createInterface } from "node:readline/promises";
import type { Environment } from "../../workers/server/environment.ts";
import { EXIT } from "./exit-code.ts";

export type OutputStream = NodeJS.WritableStream & {
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
};

export interface Io {
  /** The answer and nothing else. */
  readonly stdout: OutputStream;
  /** Progress, warnings, errors. */
  readonly stderr: OutputStream;
  /** Reads standard input to its end. */
  readonly readInput: () => Promise<string>;
  /** Asks on the terminal and returns the line that was typed; absent where nobody sits at one. */
  readonly askLine?: (question: string) => Promise<string>;
  readonly env: Environment;
  readonly cwd: string;
  readonly nowMs: () => number;
  /** Aborted by Ctrl-C. */
  readonly interrupted: AbortSignal;
}

/** Width of answers: the terminal's, or 80 without one. */
export function widthOf(stream: OutputStream): number {
  return stream.isTTY === true && stream.columns !== undefined && stream.columns > 0
    ? stream.columns
    : 80;
}

/** Resolves when the reader has taken all earlier output, or has gone. */
export async function drained(stream: OutputStream): Promise<void> {
  await new Promise<void>((resolve) => {
    stream.write("", () => {
      resolve();
    });
  });
}

/** The real world. A second Ctrl-C ends the process at once. */
export function processIo(): Io {
  const controller = new AbortController();
  process.on("SIGINT", () => {
    if (controller.signal.aborted) process.exit(EXIT.interrupted);
    controller.abort();
  });
  // With `orbweaver list | head` the reader ends early, which is no error.
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    throw error;
  });
  return {
    stdout: process.stdout,
    stderr: process.stderr,
    readInput: readStandardInput,
    ...(process.stdin.isTTY && process.stderr.isTTY && { askLine: askTerminal }),
    env: process.env,
    cwd: process.cwd(),
    nowMs: Date.now,
    interrupted: controller.signal,
  };
}

async function askTerminal(question: string): Promise<string> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await terminal.question(question);
  } finally {
    terminal.close();
  }
}

async function readStandardInput(): Promise<string> {
  let text = "";
  process.stdin.setEncoding("utf8");
  for await (const chunk of process.stdin) text += String(chunk);
  return text;
}
