/**
 * @file At most one worker on demand a role, build and machine: a lock that names its holder, falls when the holder is dead, and
 * is given up before the holder stops polling.
 *
 * The order matters: a task that comes while the lock is held is taken by the holder, which still polls; a task that comes
 * later finds the lock free and a new worker. A holder that drains stays noted under another name, so that `orbweaver down`
 * finds it. Loaded before everything else of a worker on demand, so it needs nothing but Node.
 */

import { linkSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import {
  isAlive,
  ownIdentity,
  type ProcessIdentity,
} from "../../activities/agent/process-identity.ts";
import { createOnce, isErrno, makeFolder, readFile } from "../../activities/agent/state-files.ts";
import { lockFileOf, onDemandDir, type ControlRole } from "./places.ts";

const ATTEMPTS = 5;

export interface RoleLock {
  /** Frees the role for the next worker; this process stays noted until it has ended. */
  readonly startDraining: () => void;
}

/** Takes the lock; undefined when a living process holds it. */
export function takeRoleLock(
  stateDir: string,
  role: ControlRole,
  buildId?: string,
): RoleLock | undefined {
  makeFolder(onDemandDir(stateDir));
  const path = lockFileOf(stateDir, role, buildId);
  const own = ownIdentity();
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    if (createOnce(path, own)) return lockOf(path, own);
    const holder = readFile<ProcessIdentity>(path);
    if (holder !== undefined && isAlive(holder)) return undefined;
    moveAside(path, holder);
  }
  // Others are taking it at this moment: one of them has it.
  return undefined;
}

/** Whether a living process holds the lock. */
export function isRoleServed(stateDir: string, role: ControlRole, buildId?: string): boolean {
  const holder = readFile<ProcessIdentity>(lockFileOf(stateDir, role, buildId));
  return holder !== undefined && isAlive(holder);
}

export interface OnDemandProcess extends ProcessIdentity {
  readonly role: string;
  readonly buildId: string;
  readonly isDraining: boolean;
}

/** Every worker on demand of the fleet that lives on this machine. */
export function livingOnDemand(stateDir: string): readonly OnDemandProcess[] {
  const dir = onDemandDir(stateDir);
  return namesIn(dir).flatMap((name) => {
    const [, role, build, ending] = /^([a-z]+)@(.*?)(?:\.\d+)?\.(lock|draining)$/.exec(name) ?? [];
    if (role === undefined || build === undefined) return [];
    const holder = readFile<ProcessIdentity>(join(dir, name));
    if (holder === undefined || !isAlive(holder)) return [];
    return [{ ...holder, role, buildId: build, isDraining: ending === "draining" }];
  });
}

function lockOf(path: string, own: ProcessIdentity): RoleLock {
  const draining = path.replace(/\.lock$/, `.${String(own.pid)}.draining`);
  process.once("exit", () => {
    rmSync(draining, { force: true });
    if (isOwn(path, own)) rmSync(path, { force: true });
  });
  return {
    startDraining: () => {
      if (isOwn(path, own)) renameSync(path, draining);
    },
  };
}

function isOwn(path: string, own: ProcessIdentity): boolean {
  const holder = readFile<ProcessIdentity>(path);
  return holder?.pid === own.pid && holder.started === own.started;
}

/** Of two that find the same dead holder one moves its file; the other moves nothing, or puts back what it moved. */
function moveAside(path: string, dead: ProcessIdentity | undefined): void {
  const aside = `${path}.${String(process.pid)}.dead`;
  try {
    renameSync(path, aside);
    const moved = readFile<ProcessIdentity>(aside);
    if (moved?.pid !== dead?.pid || moved?.started !== dead?.started) linkSync(aside, path);
  } catch (error) {
    if (!isErrno(error, "ENOENT") && !isErrno(error, "EEXIST")) throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

function namesIn(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if (isErrno(error, "ENOENT")) return [];
    throw error;
  }
}
