/**
 * @file One process under the product's own supervisor, output files and container, started without lease, order or gang.
 *
 * What a launch costs is on both sides of a comparison with the floor; what scheduling adds is on one.
 */

import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { groupsOf, readContainer, type Containment } from "../../agent/containment/container.ts";
import { createJsonOnce } from "../../agent/folder/json-files.ts";
import {
  LAUNCH_MARK,
  launchFiles,
  OWNER_MARK,
  type LaunchPlan,
  type LogLimits,
} from "../../agent/folder/launch-files.ts";
import { FINAL_KINDS, untilPhase, type Launch } from "../../agent/runs/local-run.ts";
import { killAll } from "../../agent/runs/process-end.ts";
import { makeContainer, startShim, type Supervisors } from "../../agent/runs/shim-start.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";

export interface SupervisedPlace extends Supervisors {
  /** Holds a folder for each launch. */
  readonly dir: string;
  readonly containment: Containment;
  readonly log: LogLimits;
}

const OWNER = "floor";
const GRACE_MS = 30_000;

/** The exit code of the command; 1 when a signal ended it. Returns when no process of it is left. */
export async function runSupervised(
  command: readonly string[],
  { dir, shimPath, nativePath, starter, containment, log }: SupervisedPlace,
): Promise<number> {
  const leaseId = `floor-${randomBytes(6).toString("hex")}`;
  const files = launchFiles(join(dir, leaseId));
  const launch: Launch = { files, system: nodeSystem };
  const { files: disk, groups } = nodeSystem;
  disk.makeFolder(files.dir);
  const { PATH = "", HOME = "" } = process.env;
  const plan: LaunchPlan = {
    command,
    cwd: files.dir,
    ranks: [{ rank: 0, env: { PATH, HOME, [LAUNCH_MARK]: files.dir, [OWNER_MARK]: OWNER } }],
    graceMs: GRACE_MS,
    log,
  };
  makeContainer(launch, { containment, owner: OWNER });
  createJsonOnce(disk, files.plan, plan);
  const started = await startShim(launch, {
    containment,
    owner: OWNER,
    shimPath,
    nativePath,
    starter,
    env: process.env,
    leaseId,
  });
  if (started === undefined)
    throw new Error(`the supervisor did not start: ${disk.readText(files.shimLog) ?? ""}`);
  const end = await untilPhase(launch, FINAL_KINDS);
  await killAll(launch);
  for (const group of groupsOf(readContainer(disk, files))) groups.remove(group);
  return end?.kind === "ended" ? (end.status.ranks[0]?.end?.exitCode ?? 1) : 1;
}
