/** @file Processes of launches that still run when a bench is over: agents that end leave them alone. Elsewhere than on Linux none is found. */

import { readdirSync, readFileSync, realpathSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { LAUNCH_MARK } from "../../agent/folder/launch-files.ts";

export interface LeftProcess {
  readonly pid: number;
  readonly launch: string;
}

/** Of launches whose files lie below the folder. */
export function leftProcesses(folder: string): readonly LeftProcess[] {
  if (process.platform !== "linux") return [];
  const mark = `${LAUNCH_MARK}=${realpathSync(folder)}/`;
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const entry = readFileSync(`/proc/${pid}/environ`, "utf8")
        .split("\0")
        .find((each) => each.startsWith(mark));
      return entry === undefined ? [] : [{ pid: Number(pid), launch: entry }];
    } catch {
      return [];
    }
  });
}

const ENDS_WITHIN_MS = 10_000;
const LOOK_MS = 20;

/** Kills them, supervisors too, and returns once none is left that could write below the folder. Throws when one does not end. */
export async function killLeft(folder: string): Promise<void> {
  const untilMs = Date.now() + ENDS_WITHIN_MS;
  for (let left = leftProcesses(folder); left.length > 0; left = leftProcesses(folder)) {
    if (Date.now() > untilMs)
      throw new Error(`process ${String(left[0]?.pid)} of ${folder} does not end`);
    killAll(left);
    await sleep(LOOK_MS);
  }
}

export function killAll(left: readonly LeftProcess[]): void {
  for (const { pid } of left) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  }
}
