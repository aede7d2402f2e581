/**
 * @file Runs what one launch's plan says, and writes down how it ended: all that the shim does.
 *
 * It lives as long as its ranks, whatever happens to the agent, and needs nothing from it. Orders to stop do not come through
 * here: the agent signals the processes itself, and notes it in `stop.json` first.
 * A shim that is not the first to take the claim does nothing. Needs nothing but Node, so that it starts fast.
 */

import { existsSync } from "node:fs";
import { launchFiles, rankDir } from "./launch.ts";
import type { Claim, LaunchFiles, LaunchPlan, LaunchStatus, StopNote } from "./launch.ts";
import { ownIdentity } from "./process-identity.ts";
import { startRanks } from "./rank-group.ts";
import { superviseBatch } from "./task-batch.ts";
import { createOnce, readFile, replaceFile } from "./state-files.ts";

/** Ends of ranks that come close together are written down together. */
const GATHER_MS = 20;
const RETRY_WRITE_MS = 500;
const DEAF_TO = ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGPIPE"] as const;

export function superviseLaunch(dir: string): void {
  const files = launchFiles(dir);
  const plan = readFile<LaunchPlan>(files.plan);
  if (plan === undefined) throw new Error(`${files.plan} is missing or broken`);
  for (const signal of DEAF_TO) process.on(signal, () => undefined);
  const claim: Claim = { kind: "shim", shim: ownIdentity() };
  if (!createOnce(files.claim, claim)) return;
  const { batch } = plan;
  if (batch === undefined) superviseGang(files, plan);
  else {
    superviseBatch({
      files,
      plan,
      batch,
      writeStatus: (status) => writeStatus(files, () => status),
    });
  }
}

function superviseGang(files: LaunchFiles, plan: LaunchPlan): void {
  if (existsSync(files.stop)) {
    const ranks = plan.ranks.map(({ rank }) => ({ rank }));
    const endedAtMs = Date.now();
    writeStatus(files, () => ({ phase: "ended", endedAtMs, ranks }));
    return;
  }
  let isEnded = false;
  let isWriteDue = false;
  const write = (): void => {
    isWriteDue = false;
    writeStatus(files, () => ({ phase: isEnded ? "ended" : "running", ...group.status() }));
  };
  const group = startRanks(plan, {
    logDirOf: (rank) => rankDir(files.dir, rank),
    isTold: () => readFile<StopNote>(files.stop)?.termAtMs !== undefined,
    onChange: () => {
      if (isWriteDue || isEnded) return;
      isWriteDue = true;
      setTimeout(() => {
        if (isWriteDue) write();
      }, GATHER_MS);
    },
    onEnd: () => {
      isEnded = true;
      write();
    },
  });
  if (group.isRunning()) write();
}

function writeStatus(files: LaunchFiles, status: () => LaunchStatus): void {
  try {
    replaceFile(files.status, status());
  } catch {
    // A full disk: the agent sees the end as soon as there is room.
    setTimeout(() => writeStatus(files, status), RETRY_WRITE_MS);
  }
}
