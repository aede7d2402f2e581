/** @file Processes of other programs: found by their environment, and killed. */

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** Of all processes whose environment has this text; none where there is no `/proc`. */
export function pidsWith(text: string): readonly number[] {
  const line = `grep -lsF -- '${text}' /proc/[0-9]*/environ | cut -d/ -f3 || true`;
  return execFileSync("sh", ["-c", line], { encoding: "utf8" })
    .split("\n")
    .filter((pid) => pid !== "" && Number(pid) !== process.pid)
    .map(Number);
}

export function kill(pid: number, signal: NodeJS.Signals = "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It had ended.
  }
}

/** A zombie has ended: who is to take its end may be late. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${String(pid)}/status`, "utf8"));
  } catch {
    return false;
  }
}
