/** @file `orbweaver down`: stops what `up` started here; jobs' own processes only when asked to. */

import type { Command } from "commander";
import { rm } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { isAlive } from "../../activities/agent/process-identity.ts";
import { type JobId, type OrbweaverClient } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import { fleetStateDir, readUpState } from "../../workers/state.ts";
import { addConnectionOptions, type ConnectionOptionValues } from "../connection-options.ts";
import { counted } from "../duration.ts";
import { helpEnd, type Kit } from "../kit.ts";
import { fleetNamed } from "../session.ts";
import { livingServer } from "../up/own-server.ts";
import { oneAtATime } from "../up/one-at-a-time.ts";
import { takeDown } from "../up/take-down.ts";

interface DownValues extends ConnectionOptionValues {
  readonly name?: string;
  readonly stopJobs?: boolean;
  readonly purge?: boolean;
  readonly json?: boolean;
}

export function downVerb(kit: Kit): Command {
  const verb = kit
    .verb("down")
    .summary("stop what `up` started")
    .description(
      "Stops the agents, workers and the Temporal server that `orbweaver up` started on this machine.\n" +
        "Processes of running jobs go on under their shims, and the next `up` takes them over;\n" +
        "--stop-jobs cancels the jobs first. The fleet's state stays until --purge.",
    )
    .option("--name <name>", "name of the fleet; the same as --fleet")
    .option("--stop-jobs", "cancel all jobs that have not ended, and wait until they have")
    .option("--purge", "remove the state folder: history, logs, checkpoints in it")
    .option("--json", "answer with one JSON document")
    .addHelpText(
      "after",
      helpEnd([
        ["orbweaver down", "until the next `up`; running jobs run on"],
        ["orbweaver down --stop-jobs --purge", "leave nothing behind"],
      ]),
    )
    .action(async (values: DownValues) => {
      const fleet = values.name ?? fleetNamed(values, kit.io.env);
      const stateDir = fleetStateDir(kit.io.env, fleet);
      kit.endsByItself();
      await oneAtATime(kit, stateDir, () => bringDown(kit, { fleet, stateDir }, values));
    });
  return addConnectionOptions(verb);
}

async function bringDown(
  kit: Kit,
  { fleet, stateDir }: { readonly fleet: string; readonly stateDir: string },
  values: DownValues,
): Promise<void> {
  const state = await readUpState(stateDir);
  const server = livingServer(stateDir, state);
  const isUp = state?.workers.some(isAlive) === true || server !== undefined;
  // The fleet's own server knows its jobs, whatever else is configured.
  const at: DownValues = {
    ...values,
    fleet,
    ...(server !== undefined && {
      isolated: true,
      address: server.address,
      namespace: server.namespace,
    }),
  };
  const running = isUp ? await openJobs(kit, at) : [];
  if (running.length > 0 && values.purge === true && values.stopJobs !== true) {
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `fleet ${fleet} has ${counted(running.length, "job")} that did not end yet, and --purge would forget the processes. Add --stop-jobs, or wait.`,
    );
  }
  if (values.stopJobs === true && running.length > 0) await stopJobs(kit, at, running);
  const down = await takeDown(kit, stateDir);
  const leftRunning = values.stopJobs === true ? 0 : running.length;
  if (values.purge === true) await rm(stateDir, { recursive: true, force: true });
  if (values.json === true) {
    kit.printJson({ fleet, ...down, jobsLeft: leftRunning, isPurged: values.purge === true });
    return;
  }
  kit.print(isUp ? `fleet ${fleet} is down` : `fleet ${fleet} was not up`);
  if (leftRunning > 0) {
    kit.print(
      `${counted(leftRunning, "job")} had not ended; processes that run go on, and the next \`orbweaver up\` takes them over`,
    );
  }
  if (values.purge === true) kit.print(`${stateDir} is removed`);
}

/**
 * Jobs that have not ended. A server that does not answer cannot be asked, and is no reason to leave the rest up, unless
 * the jobs' end was asked for.
 */
async function openJobs(kit: Kit, values: DownValues): Promise<readonly JobId[]> {
  try {
    return await kit.withSession(values, async ({ client }) => await jobIds(client));
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    if (values.stopJobs === true || values.purge === true) {
      throw new OrbweaverError(
        error.code,
        `nothing was stopped, because the jobs cannot be listed: ${error.message} Or run \`orbweaver down\` without --stop-jobs and --purge.`,
        { cause: error },
      );
    }
    kit.say(`the jobs cannot be listed: ${error.message}`);
    return [];
  }
}

async function stopJobs(
  kit: Kit,
  values: ConnectionOptionValues,
  running: readonly JobId[],
): Promise<void> {
  await kit.withSession(values, async ({ client }) => {
    kit.say(`cancelling ${counted(running.length, "job")}`);
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
