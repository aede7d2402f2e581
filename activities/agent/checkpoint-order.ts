/**
 * @file Orders a checkpoint of a launch and waits for it: a signal to every local rank, or a command run beside them.
 *
 * The signal goes to the processes that the command started, not to their children: a launcher that does not handle it would
 * die of it. The command gets the environment of the first local rank. Done is what lies complete below the run's token and
 * was not there before (see `checkpoints.ts`); a host that cannot see where rank 0 writes waits for the whole grace.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import type { CheckpointMark, RunOrder } from "../agent-contract.ts";
import { completeIn, tokenDir } from "./checkpoints.ts";
import type { LaunchPlan, LaunchStatus } from "./launch.ts";
import { FINAL_KINDS, phaseOf, untilPhase, type LocalRun, type Phase } from "./local-run.ts";
import { pause } from "./process-end.ts";
import { isAlive } from "./process-identity.ts";
import { readFile } from "./state-files.ts";

export interface CheckpointOutcome {
  readonly isComplete: boolean;
  readonly checkpoint?: CheckpointMark;
  readonly message: string;
}

const LOOK_MS = 100;

export async function orderCheckpoint(
  run: LocalRun,
  { checkpointDir, signal }: { readonly checkpointDir: string; readonly signal: AbortSignal },
): Promise<CheckpointOutcome> {
  const order = run.stored?.order;
  const rule = order?.run.checkpoint;
  let phase: Phase | undefined = phaseOf(run.files);
  // Its processes may run already and only be not written down yet.
  if (phase.kind === "starting")
    phase = await untilPhase(run.files, ["running", ...FINAL_KINDS], signal);
  if (order === undefined || phase?.kind !== "running")
    return { isComplete: false, message: `${run.leaseId} does not run here` };
  if (rule === undefined)
    return {
      isComplete: false,
      message: `${order.jobName} has no checkpoint rule in its run section`,
    };

  const dir = tokenDir(checkpointDir, order.token);
  const before = new Map(completeIn(dir).map(({ path, atMs }) => [path, atMs]));
  const untilMs = performance.now() + rule.graceMs;
  const sent =
    rule.order.kind === "signal"
      ? signalRanks(phase.status, rule.order.signal)
      : startCommand(run, order, rule.order.command);
  try {
    for (;;) {
      const made = completeIn(dir)
        .filter(({ path, atMs }) => before.get(path) !== atMs)
        .at(-1);
      if (made !== undefined)
        return { isComplete: true, checkpoint: made, message: `${made.path} is complete` };
      const trouble = sent.trouble();
      if (trouble !== undefined) return { isComplete: false, message: trouble };
      if (phaseOf(run.files).kind !== "running")
        return {
          isComplete: false,
          message: `${order.jobName} ended before a checkpoint was complete`,
        };
      if (signal.aborted)
        return { isComplete: false, message: "an order to stop at once came in between" };
      if (performance.now() >= untilMs) {
        return {
          isComplete: false,
          message: `no new complete checkpoint appeared in ${dir} within its grace of ${rule.graceMs / 1000} s`,
        };
      }
      await pause(LOOK_MS);
    }
  } finally {
    sent.end();
  }
}

/** The order as it was sent: what went wrong with it, and how to take it back. */
interface SentOrder {
  trouble(): string | undefined;
  end(): void;
}

function signalRanks(status: LaunchStatus, signal: string): SentOrder {
  let trouble: string | undefined;
  for (const { process: rank } of status.ranks) {
    if (rank === undefined || !isAlive(rank)) continue;
    try {
      process.kill(rank.pid, signal);
    } catch (error) {
      trouble = `${signal} could not be sent: ${error instanceof Error ? error.message : String(error)}`;
    }
  }
  return { trouble: () => trouble, end: () => undefined };
}

function startCommand(
  { files }: LocalRun,
  order: RunOrder,
  [file = "", ...args]: readonly string[],
): SentOrder {
  const plan = readFile<LaunchPlan>(files.plan);
  const log = openSync(join(files.dir, "checkpoint.log"), "a", 0o600);
  let trouble: string | undefined;
  let hasEnded = false;
  const fail = (what: string): void => {
    trouble = `the checkpoint command of ${order.jobName} ${what}; see checkpoint.log in ${files.dir} on ${order.host}`;
  };
  const child: ChildProcess = spawn(file, args, {
    cwd: plan?.cwd ?? files.dir,
    env: plan?.ranks[0]?.env ?? {},
    detached: true,
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  child.once("error", (error) => fail(`could not be started: ${error.message}`));
  child.once("exit", (code, signal) => {
    hasEnded = true;
    if (code !== 0)
      fail(code === null ? `was killed by ${signal}` : `ended with exit code ${code}`);
  });
  return {
    trouble: () => trouble,
    end: () => {
      if (hasEnded || child.pid === undefined) return;
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {
        // It ended by itself.
      }
    },
  };
}
