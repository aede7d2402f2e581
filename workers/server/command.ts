/**
 * @file Runs a program to its end and keeps its output.
 *
 * A program that cannot be started, is killed, or prints nothing for too long is a value and not an exception: the search for a
 * server continues with the next way and quotes the reason.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Environment } from "./environment.ts";

export interface CommandOptions {
  readonly cwd: string;
  readonly env: Environment;
  /** The program is killed after this long without a line from it. */
  readonly silenceMs: number;
  readonly onErrorLine?: (line: string) => void;
}

export interface CommandEnd {
  readonly isOk: boolean;
  readonly stdout: string;
  /** The last lines of its error output. */
  readonly errorLines: readonly string[];
  /** Why it failed, in one line; empty when it did not. */
  readonly reason: string;
}

const KEPT_ERROR_LINES = 20;
const KEPT_OUTPUT_CHARS = 64 * 1024;

export async function runCommand(
  program: string,
  args: readonly string[],
  options: CommandOptions,
): Promise<CommandEnd> {
  const { cwd, env, silenceMs, onErrorLine } = options;
  return await new Promise((resolve) => {
    const child = spawn(program, [...args], {
      cwd,
      env: { ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const errorLines: string[] = [];
    let stdout = "";
    let isSilent = false;
    const silence = setTimeout(() => {
      isSilent = true;
      child.kill("SIGKILL");
      // A grandchild may hold the pipes open after its parent has ended, so the end of the pipes is not awaited.
      child.stdout.destroy();
      child.stderr.destroy();
    }, silenceMs);
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      silence.refresh();
      stdout = (stdout + text).slice(0, KEPT_OUTPUT_CHARS);
    });
    createInterface({ input: child.stderr }).on("line", (line) => {
      silence.refresh();
      errorLines.push(line);
      if (errorLines.length > KEPT_ERROR_LINES) errorLines.shift();
      onErrorLine?.(line);
    });
    const finish = (reason: string): void => {
      clearTimeout(silence);
      resolve({ isOk: reason === "", stdout, errorLines, reason });
    };
    child.once("error", (error) => {
      finish(error.message);
    });
    child.once("close", (code, signal) => {
      if (isSilent) finish(`printed nothing for ${String(silenceMs / 1000)} s`);
      else if (signal !== null) finish(`was killed by ${signal}`);
      else finish(code === 0 ? "" : `exited with ${String(code)}`);
    });
  });
}
