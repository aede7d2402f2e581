/**
 * @file Ends every process of a launch: TERM, a grace, then KILL again and again until none is left.
 *
 * The list is made anew in each round, so a process that is forked meanwhile is found in the next one. Where the kernel keeps the launch's
 * group, the whole group is killed at once: what forks faster than it is listed ends, too. Loaded by the shim, so it needs nothing but Node.
 */

import { groupsOf, readContainer } from "../containment/container.ts";
import type { Launch, LocalRun } from "./local-run.ts";
import { phaseOf, rootsOf, untilPhase } from "./local-run.ts";
import { isAliveIn, type ProcessIdentity } from "../ports/processes.ts";
import type { System } from "../ports/system.ts";
import { membersOf } from "./launch-processes.ts";

/** Between two looks at the machine's processes, growing. */
const LOOK_MS = 10;
const LOOK_MAX_MS = 500;
/** The time that a shim needs to write its last status after its ranks have gone. */
const SHIM_END_MS = 2_000;
/** What lasts longer than this is removed at the agent's end, or at the next one's start. */
const GROUP_END_MS = 60_000;

/** Tells every process to end and waits for it, at most `graceMs` and until `kill` is aborted. True when none is left. */
export async function terminate(
  run: LocalRun,
  graceMs: number,
  kill: AbortSignal,
): Promise<boolean> {
  const { processes, clock } = run.system;
  const told = new Set<string>();
  const untilMs = clock.elapsedMs() + graceMs;
  for (let pauseMs = LOOK_MS; ; pauseMs = Math.min(pauseMs * 2, LOOK_MAX_MS)) {
    const phase = phaseOf(run);
    const members = membersOf(processes, rootsOf(run, phase));
    if (members.length === 0) return true;
    for (const { pid, started } of members) {
      if (!told.has(`${pid}:${started}`)) processes.signal(pid, "SIGTERM");
      told.add(`${pid}:${started}`);
    }
    const leftMs = kill.aborted ? 0 : untilMs - clock.elapsedMs();
    if (leftMs <= 0) return false;
    // While ranks run there are processes: the next look comes when the shim writes that they have ended.
    if (phase.kind === "running") {
      await untilPhase(run, ["ended", "lost"], AbortSignal.any([kill, clock.deadline(leftMs)]));
    } else {
      await clock.pause(Math.min(pauseMs, leftMs));
    }
  }
}

/** Returns only when no process of the launch is left; whether there was one. */
export async function killAll(launch: Launch): Promise<boolean> {
  let hadProcesses = false;
  for (let pauseMs = LOOK_MS; ; pauseMs = Math.min(pauseMs * 2, LOOK_MAX_MS)) {
    if (!killOnce(launch)) return hadProcesses;
    hadProcesses = true;
    await launch.system.clock.pause(pauseMs);
  }
}

/** Whether any process of the launch runs. */
export const hasMembers = (launch: Launch): boolean =>
  membersOf(launch.system.processes, rootsOf(launch, phaseOf(launch))).length > 0;

/** Sends KILL to every process of the launch. False when there is none. */
export function killOnce(launch: Launch): boolean {
  const { files, system } = launch;
  const { processes, groups } = system;
  // Before any look at single processes: one that forks and ends again and again is in no two looks.
  const held = groupsOf(readContainer(system.files, files)).filter(
    (group) => groups.pids(group).length > 0,
  );
  for (const group of held) groups.kill(group);
  const members = membersOf(processes, rootsOf(launch, phaseOf(launch)));
  for (const { pid } of members) processes.signal(pid, "SIGKILL");
  return held.length > 0 || members.length > 0;
}

/** Removes the groups of a launch of which nothing is left; a process that is on its way out keeps them a moment longer than it is listed. */
export async function removeGroups(
  { groups, clock }: System,
  paths: readonly string[],
): Promise<void> {
  const untilMs = clock.elapsedMs() + GROUP_END_MS;
  let left = paths;
  for (let pauseMs = LOOK_MS; ; pauseMs = Math.min(pauseMs * 2, LOOK_MAX_MS)) {
    left = left.filter((path) => !groups.remove(path));
    if (left.length === 0 || clock.elapsedMs() > untilMs) return;
    await clock.pause(pauseMs);
  }
}

/** Waits for the shim to end by itself, and ends it if it does not. */
export async function endShim({ processes, clock }: System, shim: ProcessIdentity): Promise<void> {
  const untilMs = clock.elapsedMs() + SHIM_END_MS;
  while (isAliveIn(processes, shim)) {
    if (clock.elapsedMs() > untilMs) processes.signal(shim.pid, "SIGKILL");
    await clock.pause(LOOK_MS);
  }
}
