/**
 * @file The two phases of a start on this host: `prepare` accepts or refuses, `commit` starts the shim.
 *
 * Prepare refuses by name an order that could never work here, notes the token, ends the launches that lower tokens still run on these
 * GPUs and, on rank 0's host, picks the port. It may be repeated. Commit may be repeated too: the shim that takes the claim starts
 * the ranks, any other ends at once.
 */

import { join } from "node:path";
import { asUser } from "../../access/run-as.ts";
import type { CheckpointMark, RunOrder } from "../../protocol/agent-contract.ts";
import { POLICY_VARIABLE } from "../../protocol/collective-files.ts";
import {
  isFollowedBy,
  lowerRuns,
  maskOn,
  newestOrder,
  storeOrder,
  type AgentHost,
} from "./agent-host.ts";
import { copyIn } from "./folder-fetch.ts";
import { useGroups } from "./host-groups.ts";
import { bandwidthDir } from "../folder/bandwidth-file.ts";
import { batchTrouble, planBatch } from "./batch-plan.ts";
import { newestCheckpoint, taskCheckpointDir, tokenDir } from "../folder/checkpoints.ts";
import { failure } from "../system/failures.ts";
import type { ContactStore } from "../presence/contact-store.ts";
import { ownCommand } from "../system/own-command.ts";
import type { LaunchPlan, LogLimits, StoredOrder } from "../folder/launch-files.ts";
import { gpuRefusal, ownUuids } from "./own-gpus.ts";
import { inImage, pickedTool, type ImagePorts } from "./image-plan.ts";
import { noWorkdir } from "./prepare-step.ts";
import { phaseOf, type LocalRun } from "./local-run.ts";
import { extrasDir, writeExtras } from "../folder/extra-files.ts";
import { gpuIds, planRanks, secretNames } from "./rank-environment.ts";
import { servedWeights } from "./served-weights.ts";
import { findTunerPlugin } from "./tuner-plugin.ts";
import { checkpointDirOf, revoke, stopRun } from "./run-end.ts";
import { foreignDevices } from "../containment/host-gpus.ts";
import { launchLimits } from "../containment/limits.ts";
import { launchGroups, makeContainer, startShim, type Supervisors } from "./shim-start.ts";
import type { SecretValues } from "../ports/secrets.ts";
import { secretInput } from "../shim/secret-input.ts";
import { createJsonOnce } from "../folder/json-files.ts";
import type { Files } from "../ports/files.ts";

export interface StartPorts extends Supervisors, ImagePorts {
  /** The agent's own environment; little of it is passed on. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly log: LogLimits;
  /** With less room than this for output and checkpoints, the host starts no run. */
  readonly minFreeBytes: number;
  readonly contact: Pick<ContactStore, "isInDoubt" | "isCutOff" | "noteAnswer">;
}

/** The port of rank 0 when this host is rank 0's. Throws HOST_REFUSED or STALE_TOKEN; nothing was started then. */
export async function prepare(
  host: AgentHost,
  run: LocalRun,
  {
    order,
    ports,
  }: {
    readonly order: RunOrder;
    readonly ports: Pick<StartPorts, "env" | "minFreeBytes" | keyof ImagePorts>;
  },
): Promise<number | undefined> {
  const mask = maskOn(order);
  refuseImpossible(host, order, { mask, ports });
  await untilHealed(host, order);
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
  refuseGpus(host, order, run);
  const gpuUuids = ownUuids(host, order);
  if (run.stored !== undefined && phaseOf(run).kind === "unclaimed") {
    // Places may have moved since a former attempt.
    const { gpuUuids: _former, ...stored } = run.stored;
    run.stored = { ...stored, ...(gpuUuids !== undefined && { gpuUuids }) };
    storeOrder(host, run);
  }
  if (run.stored === undefined) {
    const masterPort = order.gang[0]?.host === host.id ? await host.system.freePort() : undefined;
    const tuner = isTuningWanted(order) ? findTunerPlugin(ports.env, host.system.files) : undefined;
    run.stored = {
      order,
      ...(masterPort !== undefined && { masterPort }),
      ...(tuner !== undefined && { tuner: tuner.digest }),
      ...(gpuUuids !== undefined && { gpuUuids }),
    } satisfies StoredOrder;
    storeOrder(host, run);
  }
  return run.stored.masterPort;
}

/** After launches with lower tokens have ended, which may have had these GPUs. */
function refuseGpus(host: AgentHost, order: RunOrder, run: LocalRun): void {
  const why = gpuRefusal(host, order, run);
  if (why === undefined) return;
  throw failure("HOST_REFUSED", `${host.id} refuses ${order.leaseId} of ${order.jobName}: ${why}.`);
}

/** A host that has lost its tokens waits for the fleet's word before it admits any. */
async function untilHealed({ ready, tokens, system }: AgentHost, order: RunOrder): Promise<void> {
  if (tokens.isReady()) return;
  await Promise.race([ready, system.clock.pause(order.prepareTimeoutMs)]);
  if (!tokens.isReady())
    throw failure(
      "HOST_REFUSED",
      `${order.host} refuses ${order.leaseId} of ${order.jobName}: it has lost its tokens, and the fleet has not yet said which it gave. Ask again.`,
    );
}

/** Returns when the shim has taken the claim or will never: look at the phase. */
export async function commit(
  host: AgentHost,
  run: LocalRun,
  {
    order,
    masterPort,
    isTuned,
    secrets,
    ports,
  }: {
    readonly order: RunOrder;
    readonly masterPort: number;
    readonly isTuned: boolean;
    readonly secrets: SecretValues;
    readonly ports: StartPorts;
  },
): Promise<void> {
  const { files } = run;
  const { files: disk } = host.system;
  const isBatch = order.taskBatch !== undefined;
  const checkpointDir = checkpointDirOf(host, run);
  const runAs = ports.runAsOf?.(order);
  const handed: string[] = [];
  const makeFolder = (path: string): void => {
    makeJobFolder(disk, order, path);
    handed.push(path);
  };
  // Root makes no folder where a job says: its user does.
  const makesCheckpoints = runAs === undefined || order.run.checkpoint?.dir === undefined;
  // Thousands of small tasks need no folder each: theirs are made only for those that write checkpoints.
  if (order.taskBatch === undefined) {
    if (makesCheckpoints) makeFolder(tokenDir(checkpointDir, order.token));
    makeFolder(bandwidthDir(files.dir));
    if (order.launchExtras !== undefined) writeExtras(disk, order.launchExtras, files.dir);
  } else if (order.run.checkpoint !== undefined && makesCheckpoints)
    for (const task of order.taskBatch.tasks)
      makeFolder(tokenDir(taskCheckpointDir(checkpointDir, task), order.token));
  const leaseDir = host.layout.leaseDir(order.leaseId);
  const cwd =
    order.run.workdir ??
    (order.run.folder === undefined ? join(leaseDir, "scratch") : copyIn(leaseDir));
  if (order.run.workdir === undefined) makeFolder(cwd);
  const uid = runAs?.user.uid;
  const weights = servedWeights(host, order, { uid, handed });
  const tunerPlugin = isTuned ? agreedPlugin(run, order, ports.env) : undefined;
  const surroundings = {
    agentEnv:
      runAs === undefined ? ports.env : { ...ports.env, HOME: runAs.user.home, TMPDIR: undefined },
    ...(tunerPlugin !== undefined && { tunerPlugin }),
    ...(weights !== undefined && { weights }),
    launchDir: files.dir,
    owner: host.owner,
    masterPort,
    checkpointDir,
    ...(host.gpus !== undefined && { gpus: host.gpus }),
    checkpoint: isBatch ? undefined : lastCheckpoint(host, order, checkpointDir),
  };
  const given = order.launchExtras === undefined ? {} : { given: extrasDir(files.dir) };
  const become = runAs && asUser(runAs, { tmp: join(leaseDir, "tmp"), folders: handed, ...given });
  const names = secretNames(order);
  const processes = inImage(host, order, {
    launchDir: files.dir,
    checkpointDir: !isBatch || order.run.checkpoint !== undefined ? checkpointDir : undefined,
    cwd,
    ...(tunerPlugin !== undefined && { tunerPlugin }),
    processes:
      order.taskBatch === undefined
        ? { ranks: planRanks(order, surroundings) }
        : {
            ranks: [],
            batch: planBatch(order, order.taskBatch, { ...surroundings, leaseDir, disk, uid }),
          },
    ports,
    env: ports.env,
  });
  const command =
    processes.image === undefined
      ? ownCommand(order.run.command, ports.shimPath, disk)
      : [...processes.image.words, ...order.run.command];
  const plan: LaunchPlan = {
    command: [...(become ?? []), ...command],
    ...(become !== undefined && { asUser: become }),
    cwd,
    ...(names.length > 0 && { secrets: names }),
    ...processes,
    graceMs: order.run.graceMs,
    ...timeLeft(order),
    log: ports.log,
  };
  // No await from here to the spawn: an order to stop comes before, or finds the launch.
  const cutOff = ports.contact.isCutOff(host.id) ? `${host.id} is fenced off` : undefined;
  const stale = host.tokens.refusalOf(order.token, maskOn(order)) ?? cutOff;
  if (stale !== undefined) revoke(run, stale);
  if (run.halt.signal.aborted || phaseOf(run).kind !== "unclaimed") return;
  makeOwnContainer(host, run, order);
  createJsonOnce(disk, files.plan, plan);
  const input = names.length === 0 ? undefined : secretInput(names, secrets);
  await startOwnShim(host, run, { order, ports, ...(input !== undefined && { secrets: input }) });
}

/**
 * The newest checkpoint of the job that this one goes on from. Throws HOST_REFUSED where rank 0 would begin from nothing. To processes in an image no
 * folder of another job is shown: there the wall between jobs is the image's.
 */
export function handedOn(
  { layout, system, jobUid }: AgentHost,
  order: RunOrder,
): CheckpointMark | undefined {
  const { run, jobId, gang, host } = order;
  const from = run.checkpoint?.from;
  if (from === undefined) return undefined;
  const isShown = run.container === undefined;
  const found = isShown
    ? newestCheckpoint(system.files, layout.checkpointDir(from), { uid: jobUid?.(order) })
    : undefined;
  if (found !== undefined || gang[0]?.host !== host) return found;
  throw failure(
    "HOST_REFUSED",
    `${jobId} goes on from a checkpoint of ${from} (run.checkpoint.from), and ${host} has none: it was collected, or lies on another host. Name that host in constraints.hosts, or submit the job without run.checkpoint.from to begin anew.`,
  );
}

const lastCheckpoint = (
  host: AgentHost,
  order: RunOrder,
  checkpointDir: string,
): CheckpointMark | undefined =>
  newestCheckpoint(host.system.files, checkpointDir, {
    ...{ runs: order.formerTokens, uid: host.jobUid?.(order) },
  }) ?? handedOn(host, order);

/** The time limit is signed, and what suspended runs have used of it is not: that only shortens it. */
function timeLeft({ timeLimitMs, ranMs = 0 }: RunOrder): Pick<LaunchPlan, "timeLimitMs"> {
  if (timeLimitMs === undefined) return {};
  const isSound = Number.isFinite(ranMs) && ranMs > 0;
  return { timeLimitMs: isSound ? Math.max(1, timeLimitMs - ranMs) : timeLimitMs };
}

function makeOwnContainer(host: AgentHost, run: LocalRun, order: RunOrder): void {
  const found = launchLimits(order, host);
  // `prepare` has refused what the host cannot keep.
  const owned = {
    ...host,
    limits: "limits" in found ? found.limits : undefined,
    foreign: foreignDevices(host.gpus ?? [], gpuIds(maskOn(order))),
    isBatch: order.taskBatch !== undefined,
  };
  try {
    useGroups(host);
    makeContainer(run, owned);
  } catch (error) {
    throw failure(
      "HOST_REFUSED",
      `${order.host} cannot make the group ${launchGroups(run, owned).join(", ")} for ${order.jobName}: ${error instanceof Error ? error.message : String(error)}. Delegate the cgroup to the agent again, and restart it.`,
    );
  }
}

const isTuningWanted = ({ launchExtras }: RunOrder): boolean =>
  launchExtras?.env[POLICY_VARIABLE] !== undefined;

/** The plugin that this host told its gang of. Throws HOST_REFUSED where another one is there by now: it may choose otherwise. */
function agreedPlugin(run: LocalRun, order: RunOrder, env: StartPorts["env"]): string {
  const plugin = findTunerPlugin(env, run.system.files);
  if (plugin !== undefined && plugin.digest === run.stored?.tuner) return plugin.path;
  throw failure(
    "HOST_REFUSED",
    `${order.host} refuses ${order.leaseId} of ${order.jobName}: its collectives plugin was replaced while the gang got ready. It is tried again.`,
  );
}

async function startOwnShim(
  { containment, owner }: AgentHost,
  run: LocalRun,
  {
    order,
    ports,
    ...given
  }: { readonly order: RunOrder; readonly ports: StartPorts; readonly secrets?: string },
): Promise<void> {
  const { shimPath, nativePath, starter, env } = ports;
  const { files, system } = run;
  const { leaseId } = order;
  const phase = await startShim(run, {
    containment,
    owner,
    shimPath,
    nativePath,
    starter,
    env,
    leaseId,
    ...given,
  });
  if (phase !== undefined || !revoke(run, "its supervisor could not be started")) return;
  throw failure(
    "HOST_REFUSED",
    `${order.host} could not start ${[nativePath, shimPath].filter(Boolean).join(" or ")} for ${order.leaseId}: ${(system.files.readText(files.shimLog) ?? "").slice(-1_000)}`,
  );
}

function refuseImpossible(
  host: AgentHost,
  order: RunOrder,
  {
    mask,
    ports,
  }: { readonly mask: number; readonly ports: Pick<StartPorts, "minFreeBytes"> & ImagePorts },
): void {
  const refuse = (why: string): never => {
    throw failure(
      "HOST_REFUSED",
      `${host.id} refuses ${order.leaseId} of ${order.jobName}: ${why}`,
    );
  };
  const { files: disk } = host.system;
  const standing = disk.readText(host.layout.refuse)?.trim();
  if (standing !== undefined) {
    refuse(
      `${standing === "" ? "it was told to start nothing" : standing}. Remove ${host.layout.refuse} when that is over.`,
    );
  }
  if (mask <= 0) refuse("the lease names no GPU of it");
  if (mask >= 2 ** host.gpuCount) {
    refuse(
      `the lease names GPU ${31 - Math.clz32(mask)}, and it has ${host.gpuCount}. Bring the fleet file and the agent's hosts together.`,
    );
  }
  const limits = launchLimits(order, host);
  if ("refusal" in limits) refuse(limits.refusal);
  const picked = pickedTool(order, ports);
  if (picked !== undefined && "refusal" in picked) refuse(picked.refusal);
  const trouble = batchTrouble(order);
  if (trouble !== undefined) refuse(trouble);
  const { workdir } = order.run;
  // The user of another looks itself (`lookForWorkdir`).
  const isOwn = ports.runAsOf?.(order) === undefined;
  if (isOwn && workdir !== undefined && disk.stat(workdir)?.kind !== "folder")
    refuse(noWorkdir(workdir));
  const freeBytes = disk.freeBytes(host.layout.dir);
  if (freeBytes < ports.minFreeBytes) {
    refuse(
      `its disk has ${Math.floor(freeBytes / 2 ** 20)} MiB free for ${host.layout.dir} and needs ${Math.ceil(ports.minFreeBytes / 2 ** 20)}. Make room.`,
    );
  }
}

const staleToken = (order: RunOrder, why: string): Error =>
  failure(
    "STALE_TOKEN",
    `${order.leaseId} of ${order.jobName} may not start on ${order.host}: ${why}`,
  );

function makeJobFolder(disk: Files, order: RunOrder, path: string): void {
  try {
    disk.makeFolder(path);
  } catch (error) {
    throw failure(
      "HOST_REFUSED",
      `${order.host} cannot make the folder ${path} for ${order.jobName}: ${error instanceof Error ? error.message : String(error)}. Name one that the agent may write.`,
    );
  }
}
