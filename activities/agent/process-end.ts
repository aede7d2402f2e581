/**
 * @file Ends every process of a launch: TERM, a grace, then KILL again and again until none is left.
 *
 * The list is made anew in each round, so what is forked meanwhile is found in the next one. Cgroups are not used: the mark,
 * the groups, the sessions and the descent find everything that does not hide on purpose, and need no rights.
 */

import type { LocalRun } from "./local-run.ts";
import { phaseOf, rootsOf, untilPhase } from "./local-run.ts";
import { isAlive, type ProcessIdentity } from "./process-identity.ts";
import { membersOf } from "./process-table.ts";

/** Between two looks at the machine's processes, growing. */
const LOOK_MS = 10;
const LOOK_MAX_MS = 500;
/** What a shim needs to write its last word after its ranks have gone. */
const SHIM_END_MS = 2_000;

/** Tells every process to end and waits for it, at most `graceMs`. True when none is left. */
export async function terminate({ files }: LocalRun, graceMs: number): Promise<boolean> {
  const told = new Set<string>();
  const untilMs = performance.now() + graceMs;
  for (let pauseMs = LOOK_MS; ; pauseMs = Math.min(pauseMs * 2, LOOK_MAX_MS)) {
    const phase = phaseOf(files);
    const members = membersOf(rootsOf(files, phase));
    if (members.length === 0) return true;
    for (const { pid, started } of members) {
      if (!told.has(`${pid}:${started}`)) send(pid, "SIGTERM");
      told.add(`${pid}:${started}`);
    }
    const leftMs = untilMs - performance.now();
    if (leftMs <= 0) return false;
    // As long as ranks run there is something left: no need to look before the shim says that they have ended.
    if (phase.kind === "running") {
      await untilPhase(files, ["ended", "lost"], AbortSignal.timeout(Math.ceil(leftMs)));
    } else {
      await pause(Math.min(pauseMs, leftMs));
    }
  }
}

/** Returns only when no process of the launch is left; whether there was one. */
export async function killAll({ files }: LocalRun): Promise<boolean> {
  let hadProcesses = false;
  for (let pauseMs = LOOK_MS; ; pauseMs = Math.min(pauseMs * 2, LOOK_MAX_MS)) {
    const members = membersOf(rootsOf(files, phaseOf(files)));
    if (members.length === 0) return hadProcesses;
    hadProcesses = true;
    for (const { pid } of members) send(pid, "SIGKILL");
    await pause(pauseMs);
  }
}

/** Waits for the shim to end by itself, and ends it if it does not. */
export async function endShim(shim: ProcessIdentity): Promise<void> {
  const untilMs = performance.now() + SHIM_END_MS;
  while (isAlive(shim)) {
    if (performance.now() > untilMs) send(shim.pid, "SIGKILL");
    await pause(LOOK_MS);
  }
}

export const pause = (forMs: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, forMs);
  });

function send(pid: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone meanwhile; what is still there is found in the next round.
  }
}
