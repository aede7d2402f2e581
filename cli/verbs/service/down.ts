/** @file `orbweaver down`: stops the processes that `up` started here; jobs' own processes only on request. */

import type { Command } from "commander";
import { setTimeout as sleep } from "node:timers/promises";
import { isAlive } from "../../../agent/system/process-identity.ts";
import { type JobId, type OrbweaverClient } from "../../../client/index.ts";
import { nodeFiles } from "../../../agent/system/node-files.ts";
import { removeLeftPools } from "../../../agent/system/weights-pool.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { hasErrorCode } from "../../../lib/error-code.ts";
import { fleetStateDir, readUpState } from "../../../workers/state.ts";
import {
  addConnectionOptions,
  type ConnectionOptionValues,
} from "../../command/connection-options.ts";
import { counted } from "../../terminal/duration.ts";
import { helpEnd, type CommandContext } from "../../command/command-context.ts";
import { fleetNamed } from "../../command/fleet-name.ts";
import { livingServer } from "../../up/own-server.ts";
import { oneAtATime } from "../../up/one-at-a-time.ts";
import { takeDown } from "../../up/take-down.ts";

interface DownValues extends ConnectionOptionValues {
  readonly name?: string;
  readonly stopJobs?: boolean;
  readonly purge?: boolean;
  readonly json?: boolean;
}

export function downVerb(context: CommandContext): Command {
  const verb = context
    .verb("down")
    .summary("stop the processes that `up` started")
    .description(
      "Stops the agents, the workers and the Temporal server that `orbweaver up` started on this machine. Processes of running jobs continue under their shims, and the next `up` adopts them; --stop-jobs cancels the jobs first. The fleet's state is kept unless --purge is given.",
    )
    .option("--name <name>", "name of the fleet; the same as --fleet")
    .option("--stop-jobs", "cancel all jobs that have not ended, and wait until they have ended")
    .option("--purge", "remove the state folder with its history, logs and checkpoints")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver down", "stop until the next `up`; running jobs continue"],
        ["orbweaver down --stop-jobs --purge", "cancel all jobs and remove all state"],
      ]),
    )
    .action(async (values: DownValues) => {
      const fleet = values.name ?? fleetNamed(values, context.io.env);
      const stateDir = fleetStateDir(context.io.env, fleet);
      context.endsByItself();
      await oneAtATime(context, stateDir, () => bringDown(context, { fleet, stateDir }, values));
    });
  return addConnectionOptions(verb);
}

async function bringDown(
  context: CommandContext,
  { fleet, stateDir }: { readonly fleet: string; readonly stateDir: string },
  values: DownValues,
): Promise<void> {
  const state = await readUpState(stateDir);
  const server = livingServer(stateDir, state);
  const isUp = state?.workers.some(isAlive) === true || server !== undefined;
  // The fleet's own server knows its jobs, whatever server is configured.
  const at: DownValues = {
    ...values,
    fleet,
    ...(server !== undefined && {
      isolated: true,
      address: server.address,
      namespace: server.namespace,
    }),
  };
  const running = isUp ? await openJobs(context, at) : [];
  if (running.length > 0 && values.purge === true && values.stopJobs !== true) {
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `fleet ${fleet} has ${counted(running.length, "job")} that have not ended, and --purge would lose track of their processes. Add --stop-jobs, or wait.`,
    );
  }
  if (values.stopJobs === true && running.length > 0) await stopJobs(context, at, running);
  const down = await takeDown(context, stateDir);
  const leftRunning = values.stopJobs === true ? 0 : running.length;
  if (values.purge === true) {
    await removeWhole(stateDir);
    removeLeftPools();
  }
  if (values.json === true) {
    context.printJson({ fleet, ...down, jobsLeft: leftRunning, isPurged: values.purge === true });
    return;
  }
  context.print(isUp ? `fleet ${fleet} is down` : `fleet ${fleet} was not up`);
  if (leftRunning > 0) {
    context.print(
      `${counted(leftRunning, "job")} had not ended; processes that run go on, and the next \`orbweaver up\` takes them over`,
    );
  }
  if (values.purge === true) context.print(`${stateDir} is removed`);
}

/**
 * Jobs that have not ended. A server that does not answer has no list; that does not keep the other processes running, unless
 * the end of the jobs was requested.
 */
async function openJobs(context: CommandContext, values: DownValues): Promise<readonly JobId[]> {
  try {
    return await context.withSession(values, async ({ client }) => await jobIds(client));
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    if (values.stopJobs === true || values.purge === true) {
      throw new OrbweaverError(
        error.code,
        `nothing was stopped, because the jobs cannot be listed: ${error.message} Or run \`orbweaver down\` without --stop-jobs and --purge.`,
        { cause: error },
      );
    }
    context.say(`the jobs cannot be listed: ${error.message}`);
    return [];
  }
}

async function stopJobs(
  context: CommandContext,
  values: ConnectionOptionValues,
  running: readonly JobId[],
): Promise<void> {
  await context.withSession(values, async ({ client }) => {
    context.say(`cancelling ${counted(running.length, "job")}`);
    await Promise.all(running.map((jobId) => cancel(client, jobId)));
    const ended = Promise.all(running.map((jobId) => client.job(jobId).outcome()));
    const patience = sleep(STOP_PATIENCE_MS, "late" as const, { ref: false });
    if ((await Promise.race([ended, patience])) === "late") {
      throw new OrbweaverError(
        "NOT_ALLOWED",
        `not every job has ended within ${String(STOP_PATIENCE_MS / 60_000)} minutes; \`orbweaver list\` shows which. Nothing was stopped.`,
      );
    }
  });
}

const STOP_PATIENCE_MS = 10 * 60_000;

async function cancel(client: OrbweaverClient, jobId: JobId): Promise<void> {
  try {
    await client.job(jobId).cancel();
  } catch (error) {
    // It ended by itself in the meantime.
    const isOver =
      error instanceof OrbweaverError &&
      (error.code === "NOT_ALLOWED" || error.code === "NOT_FOUND");
    if (!isOver) throw error;
  }
}

async function jobIds(client: OrbweaverClient): Promise<readonly JobId[]> {
  const ids: JobId[] = [];
  for await (const { jobId } of client.list()) ids.push(jobId);
  return ids;
}

const TRIES = 10;
const AGAIN_MS = 100;
/** Of folders that are written, and of files of other machines that are open, while they are removed. */
const PASSING: readonly string[] = ["ENOTEMPTY", "EBUSY"];

/** What the last processes write while they end must not keep a folder. */
async function removeWhole(folder: string): Promise<void> {
  for (let left = TRIES; ; left -= 1) {
    try {
      return nodeFiles.remove(folder);
    } catch (error) {
      const isPassing = PASSING.some((code) => hasErrorCode(error, code));
      if (left === 0 || !isPassing) throw error;
      await sleep(AGAIN_MS);
    }
  }
}
