/**
 * @file Runs a check program of an operator and says whether it passed: status 0 within its time. With its last line of output, for people.
 *
 * It has a process group of its own, which is killed at its time limit or when the agent ends.
 */

import { spawn } from "node:child_process";
import { harmless } from "../../domain/values/file-problem.ts";
import type { CheckResult } from "../health/health-checks.ts";
import type { CheckProgram } from "../health/lease-checks.ts";

const KEPT_BYTES = 4_096;
const SHOWN_CHARACTERS = 200;
/** Output still in a pipe when the program ends is waited for this long. */
const DRAIN_MS = 250;

export function runCheckProgram(
  { command, timeoutMs, env }: CheckProgram,
  closing: AbortSignal,
): Promise<CheckResult> {
  return new Promise((resolve) => {
    const [program = "", ...words] = command;
    let output = Buffer.alloc(0);
    let [isLate, isOver] = [false, false];
    let child;
    try {
      child = spawn(program, words, {
        detached: true,
        stdio: ["ignore", "pipe", "pipe"],
        env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env },
      });
    } catch (error) {
      // A word with a NUL byte, for one.
      resolve({ kind: "failed", why: notStarted(error) });
      return;
    }
    const kill = (): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // The group has ended.
      }
    };
    const timer = setTimeout(() => {
      isLate = true;
      kill();
    }, timeoutMs);
    closing.addEventListener("abort", kill, { once: true });
    const keep = (bytes: Buffer): void => {
      output = Buffer.concat([output, bytes]).subarray(-KEPT_BYTES);
    };
    // Where no file can be opened any more there are no pipes.
    const { stdout, stderr }: Partial<typeof child> = child;
    stdout?.on("data", keep);
    stderr?.on("data", keep);
    const end = (why: string | undefined): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      closing.removeEventListener("abort", kill);
      kill();
      const said = lastLine(output.toString());
      resolve(
        why === undefined
          ? { kind: "passed" }
          : { kind: "failed", why: said === "" ? why : `${why}: ${said}` },
      );
    };
    child.on("error", (error) => {
      end(notStarted(error));
    });
    const ended = (code: number | null, signal: string | null): void => {
      if (isLate) end(`took longer than ${timeoutMs / 1_000} s`);
      else if (code === 0) end(undefined);
      else
        end(signal === null ? `ended with exit code ${String(code)}` : `was killed by ${signal}`);
    };
    child.on("close", ended);
    // A daemon that the check left behind may hold the pipes for ever.
    child.on("exit", (code, signal) => setTimeout(() => ended(code, signal), DRAIN_MS));
  });
}

const notStarted = (error: unknown): string =>
  `could not be started (${error instanceof Error ? error.message : String(error)})`;

function lastLine(output: string): string {
  const lines = output.split("\n").filter((line) => line.trim() !== "");
  return harmless(lines.at(-1)?.trim() ?? "").slice(0, SHOWN_CHARACTERS);
}
