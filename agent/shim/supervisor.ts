/**
 * @file The shim: starts the processes of one launch's plan, and writes down how they ended.
 *
 * It lives as long as its ranks, whatever happens to the agent, and needs nothing from it. An order to stop takes another way:
 * the agent notes it in `stop.json` and then signals the processes itself.
 * A shim that is not the first to take the claim does nothing. Needs nothing but Node, so that it starts fast.
 */

import { readContainer } from "../containment/container.ts";
import { launchFiles, rankDir } from "../folder/launch-files.ts";
import type { Claim, LaunchPlan, LaunchStatus, StopNote } from "../folder/launch-files.ts";
import type { System } from "../ports/system.ts";
import type { Launch } from "../runs/local-run.ts";
import { startRanks, type RankGroupPorts } from "./rank-group.ts";
import { superviseBatch } from "./task-batch.ts";
import { hasMembers, killOnce } from "../runs/process-end.ts";
import { createJsonOnce, readJson, replaceJson } from "../folder/json-files.ts";
import { withSecrets } from "./secret-input.ts";

/** Ends of ranks that come close together are written down together. */
const GATHER_MS = 20;
const RETRY_WRITE_MS = 500;
/** Between two looks for orphans that were killed. */
const ORPHAN_LOOK_MS = 10;

/** `input`: all that the agent has given to the shim to read. */
export function superviseLaunch(dir: string, system: System, input: () => string): void {
  const files = launchFiles(dir);
  const launch: Launch = { files, system };
  const written = readJson<LaunchPlan>(system.files, files.plan);
  if (written === undefined) throw new Error(`${files.plan} is missing or broken`);
  // Before the claim: an agent that ended before it had given them starts another shim.
  const plan = withSecrets(written, input);
  const claim: Claim = { kind: "shim", shim: system.processes.own() };
  if (!createJsonOnce(system.files, files.claim, claim)) return;
  const { batch } = plan;
  if (batch === undefined) superviseGang(launch, plan);
  else {
    superviseBatch({
      launch,
      plan,
      batch,
      writeStatus: (status) => {
        const write = (): void => writeStatus(launch, () => status);
        if (status.phase === "ended") whenOrphansAreGone(launch, plan.graceMs, write);
        else write();
      },
    });
  }
}

function superviseGang(launch: Launch, plan: LaunchPlan): void {
  const { files, system } = launch;
  if (system.files.stat(files.stop) !== undefined) {
    const ranks = plan.ranks.map(({ rank }) => ({ rank }));
    const endedAtMs = system.clock.nowMs();
    writeStatus(launch, () => ({ phase: "ended", endedAtMs, ranks }));
    return;
  }
  let isEnded = false;
  let isWriteDue = false;
  const write = (): void => {
    isWriteDue = false;
    writeStatus(launch, () => {
      if (isEnded) group.tellLosses();
      return { phase: isEnded ? "ended" : "running", ...group.status() };
    });
  };
  const ports: RankGroupPorts = {
    logDirOf: (rank) => rankDir(files.dir, rank),
    isNotified: () => readJson<StopNote>(system.files, files.stop)?.termAtMs !== undefined,
    onChange: () => {
      if (isWriteDue || isEnded) return;
      isWriteDue = true;
      system.clock.after(GATHER_MS, () => {
        if (isWriteDue) write();
      });
    },
    onEnd: () =>
      whenOrphansAreGone(launch, plan.graceMs, () => {
        isEnded = true;
        write();
      }),
  };
  const container = readContainer(system.files, files);
  const group = startRanks({ ...plan, container }, ports, system);
  if (group.isRunning()) write();
}

/**
 * Where the shim is what orphans fall to, they are lost to us once it has ended: it kills them first, or lets them have the grace of a stop.
 * Any other container keeps them for the agent.
 */
function whenOrphansAreGone(launch: Launch, graceMs: number, done: () => void): void {
  const { files, system } = launch;
  if (readContainer(system.files, files).kind !== "subreaper") {
    done();
    return;
  }
  const look = (): void => {
    const toldAtMs = readJson<StopNote>(system.files, files.stop)?.termAtMs;
    const isGrace = toldAtMs !== undefined && system.clock.nowMs() < toldAtMs + graceMs;
    const isLeft = isGrace ? hasMembers(launch) : killOnce(launch);
    if (isLeft) system.clock.after(ORPHAN_LOOK_MS, look);
    else done();
  };
  look();
}

function writeStatus(launch: Launch, status: () => LaunchStatus): void {
  const { files, system } = launch;
  try {
    replaceJson(system.files, files.status, status());
  } catch {
    // A full disk: the agent sees the end as soon as there is room.
    system.clock.after(RETRY_WRITE_MS, () => writeStatus(launch, status));
  }
}
