/**
 * @file The two phases of a start on this host: `prepare` says yes or no, `commit` starts the shim.
 *
 * Prepare refuses by name what could never work here, notes the token, ends what lower tokens still run on these GPUs and, on
 * rank 0's host, picks the port. It may be repeated. Commit may be repeated too: whichever shim takes the claim starts the
 * ranks, any other ends at once.
 */

import { spawn } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  openSync,
  closeSync,
  readFileSync,
  statfsSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import type { RunOrder } from "../agent-contract.ts";
import { POLICY_VARIABLE } from "../collectives/run-files.ts";
import { isFollowedBy, lowerRuns, maskOn, newestOrder, type AgentHost } from "./agent-host.ts";
import { bandwidthDir } from "./bandwidth-file.ts";
import { batchTrouble, planBatch } from "./batch-plan.ts";
import { newestCheckpoint, taskCheckpointDir, tokenDir } from "./checkpoints.ts";
import { failure } from "./failures.ts";
import { freePort } from "./free-port.ts";
import { ownCommand } from "./own-command.ts";
import { LAUNCH_MARK, type LaunchPlan, type LogLimits, type StoredOrder } from "./launch.ts";
import { phaseOf, untilPhase, type LocalRun } from "./local-run.ts";
import { writeOutfit } from "./outfit-files.ts";
import { planRanks } from "./rank-environment.ts";
import { findTunerPlugin } from "./tuner-plugin.ts";

import { checkpointDirOf, revoke, stopRun } from "./run-end.ts";
import { createOnce, replaceFile } from "./state-files.ts";

export interface StartPorts {
  /** The compiled entry of the shim. */
  readonly shimPath: string;
  /** The agent's own environment; little of it is passed on. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: LogLimits;
  /** Less room than this for output and checkpoints, and the host starts nothing. */
  readonly minFreeBytes: number;
}

/** The port of rank 0 when this host is rank 0's. Throws HOST_REFUSED or STALE_TOKEN; nothing was started then. */
export async function prepare(
  host: AgentHost,
  run: LocalRun,
  {
    order,
    ports,
  }: { readonly order: RunOrder; readonly ports: Pick<StartPorts, "env" | "minFreeBytes"> },
): Promise<number | undefined> {
  const mask = maskOn(order);
  refuseImpossible(host, order, { mask, minFreeBytes: ports.minFreeBytes });
  const stale = await host.tokens.admit(order.token, mask);
  if (stale !== undefined) throw staleToken(order, stale);
  const later = newestOrder(host, order.leaseId);
  if (later !== undefined && isFollowedBy(order, later))
    throw staleToken(order, `batch ${later.taskBatch?.seq} of the lease has followed already`);
  const reason =
    order.taskBatch === undefined
      ? `${order.leaseId} has a higher token for the same GPUs`
      : `batch ${order.taskBatch.seq} of ${order.leaseId} has come for the same GPUs`;
  await Promise.all(
    lowerRuns(host, order, mask).map((lower) =>
      stopRun(host, lower, { reason, isCheckpointFirst: false }),
    ),
  );
  if (run.stored === undefined) {
    const masterPort = order.gang[0]?.host === host.id ? await freePort() : undefined;
    const tuner = isTuningWanted(order) ? findTunerPlugin(ports.env) : undefined;
    run.stored = {
      order,
      ...(masterPort !== undefined && { masterPort }),
      ...(tuner !== undefined && { tuner: tuner.digest }),
    } satisfies StoredOrder;
    replaceFile(run.files.order, run.stored);
  }
  return run.stored.masterPort;
}

/** Returns when the shim has taken the claim or will never: look at the phase. */
export async function commit(
  host: AgentHost,
  run: LocalRun,
  {
    order,
    masterPort,
    isTuned,
    ports,
  }: {
    readonly order: RunOrder;
    readonly masterPort: number;
    readonly isTuned: boolean;
    readonly ports: StartPorts;
  },
): Promise<void> {
  const { files } = run;
  const checkpointDir = checkpointDirOf(host, run);
  // Thousands of small tasks need no folder each: theirs are made only for those that write checkpoints.
  if (order.taskBatch === undefined) {
    makeJobFolder(order, tokenDir(checkpointDir, order.token));
    makeJobFolder(order, bandwidthDir(files.dir));
    if (order.outfit !== undefined) writeOutfit(order.outfit, files.dir);
  } else if (order.run.checkpoint !== undefined)
    for (const task of order.taskBatch.tasks)
      makeJobFolder(order, tokenDir(taskCheckpointDir(checkpointDir, task), order.token));
  const leaseDir = host.layout.leaseDir(order.leaseId);
  const cwd = order.run.workdir ?? join(leaseDir, "scratch");
  if (order.run.workdir === undefined) makeJobFolder(order, cwd);
  const tunerPlugin = isTuned ? agreedPlugin(run, order, ports.env) : undefined;
  const surroundings = {
    agentEnv: ports.env,
    ...(tunerPlugin !== undefined && { tunerPlugin }),
    launchDir: files.dir,
    masterPort,
    checkpointDir,
    checkpoint: order.taskBatch === undefined ? newestCheckpoint(checkpointDir) : undefined,
  };
  const plan: LaunchPlan = {
    command: ownCommand(order.run.command, ports.shimPath),
    cwd,
    ...(order.taskBatch === undefined
      ? { ranks: planRanks(order, surroundings) }
      : { ranks: [], batch: planBatch(order, order.taskBatch, { ...surroundings, leaseDir }) }),
    graceMs: order.run.graceMs,
    ...(order.timeLimitMs !== undefined && { timeLimitMs: order.timeLimitMs }),
    log: ports.log,
  };
  // From here to the spawn nothing is awaited: an order to stop comes before, or finds the launch to stop.
  const stale = host.tokens.refusalOf(order.token, maskOn(order));
  if (stale !== undefined) revoke(run, stale);
  if (run.halt.signal.aborted || phaseOf(files).kind !== "unclaimed") return;
  createOnce(files.plan, plan);
  await startShim(order, run, ports);
}

const isTuningWanted = ({ outfit }: RunOrder): boolean =>
  outfit?.env[POLICY_VARIABLE] !== undefined;

/** The plugin that this host told its gang of. Throws HOST_REFUSED where another one is there by now: it may choose otherwise. */
function agreedPlugin(run: LocalRun, order: RunOrder, env: StartPorts["env"]): string {
  const plugin = findTunerPlugin(env);
  if (plugin !== undefined && plugin.digest === run.stored?.tuner) return plugin.path;
  throw failure(
    "HOST_REFUSED",
    `${order.host} refuses ${order.leaseId} of ${order.jobName}: its collectives plugin was replaced while the gang got ready. It is tried again.`,
  );
}

async function startShim(
  order: RunOrder,
  run: LocalRun,
  { shimPath, env }: StartPorts,
): Promise<void> {
  const { files } = run;
  const log = openSync(files.shimLog, "a", 0o600);
  const child = spawn(process.execPath, [shimPath, files.dir], {
    cwd: files.dir,
    env: {
      PATH: env["PATH"],
      HOME: env["HOME"],
      ORBWEAVER_LEASE_ID: order.leaseId,
      [LAUNCH_MARK]: files.dir,
    },
    detached: true,
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  child.unref();
  const gone = new AbortController();
  child.once("error", () => gone.abort());
  child.once("exit", () => gone.abort());
  const phase = await untilPhase(
    files,
    ["starting", "running", "ended", "lost", "revoked"],
    gone.signal,
  );
  if (phase !== undefined || !revoke(run, "its shim could not be started")) return;
  throw failure(
    "HOST_REFUSED",
    `${order.host} could not start the shim ${shimPath} for ${order.leaseId}: ${readFileSync(files.shimLog, "utf8").slice(-1_000)}`,
  );
}

function refuseImpossible(
  host: AgentHost,
  order: RunOrder,
  { mask, minFreeBytes }: { readonly mask: number; readonly minFreeBytes: number },
): void {
  const refuse = (why: string): never => {
    throw failure(
      "HOST_REFUSED",
      `${host.id} refuses ${order.leaseId} of ${order.jobName}: ${why}`,
    );
  };
  if (existsSync(host.layout.refuse)) {
    const why = readFileSync(host.layout.refuse, "utf8").trim();
    refuse(
      `${why === "" ? "it was told to start nothing" : why}. Remove ${host.layout.refuse} when that is over.`,
    );
  }
  if (mask <= 0) refuse("the lease names no GPU of it");
  if (mask >= 2 ** host.gpuCount) {
    refuse(
      `the lease names GPU ${31 - Math.clz32(mask)}, and it has ${host.gpuCount}. Bring the fleet file and the agent's hosts together.`,
    );
  }
  const trouble = batchTrouble(order);
  if (trouble !== undefined) refuse(trouble);
  const { workdir } = order.run;
  if (
    workdir !== undefined &&
    statSync(workdir, { throwIfNoEntry: false })?.isDirectory() !== true
  ) {
    refuse(
      `the working folder ${workdir} does not exist there. Create it, or name another in run.workdir.`,
    );
  }
  const disk = statfsSync(host.layout.dir);
  const freeBytes = disk.bavail * disk.bsize;
  if (freeBytes < minFreeBytes) {
    refuse(
      `its disk has ${Math.floor(freeBytes / 2 ** 20)} MiB free for ${host.layout.dir} and needs ${Math.ceil(minFreeBytes / 2 ** 20)}. Make room.`,
    );
  }
}

const staleToken = (order: RunOrder, why: string): Error =>
  failure(
    "STALE_TOKEN",
    `${order.leaseId} of ${order.jobName} may not start on ${order.host}: ${why}`,
  );

function makeJobFolder(order: RunOrder, path: string): void {
  try {
    mkdirSync(path, { recursive: true });
  } catch (error) {
    throw failure(
      "HOST_REFUSED",
      `${order.host} cannot make the folder ${path} for ${order.jobName}: ${error instanceof Error ? error.message : String(error)}. Name one that the agent may write.`,
    );
  }
}
