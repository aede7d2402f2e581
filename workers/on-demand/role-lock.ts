/**
 * @file At most one worker on demand for each role and build on a machine: its lock, which it frees before it stops polling.
 *
 * The order matters. A task that comes while the lock is held is taken by the holder, which still polls; a task that comes later finds the
 * lock free and starts a new worker. A worker that drains stays noted under another name, so that `orbweaver down` finds it. This module
 * is loaded before everything else of a worker on demand, so it needs nothing but Node.
 */

import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { ProcessIdentity } from "../../agent/system/process-identity.ts";
import { lockHolder, tryLock } from "../../agent/system/process-lock.ts";
import { makeFolder } from "../../agent/system/state-files.ts";
import { hasErrorCode } from "../../lib/error-code.ts";
import { lockFileOf, onDemandDir, type ControlRole } from "./places.ts";

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
  const attempt = tryLock(path);
  if (attempt.kind === "held") return undefined;
  const { lock } = attempt;
  const draining = path.replace(/\.lock$/, `.${String(process.pid)}.draining`);
  process.once("exit", () => {
    rmSync(draining, { force: true });
    lock.release();
  });
  return { startDraining: () => lock.moveTo(draining) };
}

/** Whether a living process holds the lock. */
export function isRoleServed(stateDir: string, role: ControlRole, buildId?: string): boolean {
  return lockHolder(lockFileOf(stateDir, role, buildId)) !== undefined;
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
    const holder = lockHolder(join(dir, name));
    if (holder === undefined) return [];
    return [{ ...holder, role, buildId: build, isDraining: ending === "draining" }];
  });
}

function namesIn(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return [];
    throw error;
  }
}
