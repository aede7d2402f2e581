/**
 * @file One agent a host: a lock that names its holder by boot id, pid and start time, and that falls when the holder is dead.
 *
 * Taking over moves the dead holder's file aside and looks at what was moved: of two agents that find the same dead holder
 * one moves it, and the other moves nothing, or moves the first one's fresh lock and puts it back.
 */

import { linkSync, renameSync, rmSync } from "node:fs";
import { OrbweaverError } from "../../domain/failure.ts";
import type { HostId } from "../../domain/ids.ts";
import { isAlive, ownIdentity } from "./process-identity.ts";
import type { ProcessIdentity } from "./process-identity.ts";
import { createOnce, isErrno, readFile } from "./state-files.ts";

const ATTEMPTS = 5;

/** Takes the lock, or throws HOST_ALREADY_SERVED. The result gives it back. */
export function takeHostLock(path: string, host: HostId): () => void {
  const own = ownIdentity();
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    if (createOnce(path, own)) return () => release(path, own);
    const holder = readFile<ProcessIdentity>(path);
    if (holder !== undefined && isAlive(holder)) throw alreadyServed(host, holder, path);
    moveAside(path, holder);
  }
  throw new OrbweaverError(
    "HOST_ALREADY_SERVED",
    `${host}: the lock ${path} is being taken by other agents. Start one agent for this host only.`,
  );
}

function moveAside(path: string, dead: ProcessIdentity | undefined): void {
  const aside = `${path}.${process.pid}.dead`;
  try {
    renameSync(path, aside);
    const moved = readFile<ProcessIdentity>(aside);
    if (moved?.pid !== dead?.pid || moved?.started !== dead?.started) linkSync(aside, path);
  } catch (error) {
    // Another agent moved it, or took the lock, before us: the next look shows who has it.
    if (!isErrno(error, "ENOENT") && !isErrno(error, "EEXIST")) throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

function release(path: string, own: ProcessIdentity): void {
  const holder = readFile<ProcessIdentity>(path);
  if (holder?.pid === own.pid && holder.started === own.started) rmSync(path, { force: true });
}

function alreadyServed(host: HostId, holder: ProcessIdentity, path: string): OrbweaverError {
  return new OrbweaverError(
    "HOST_ALREADY_SERVED",
    `${host} is already served by the agent with process id ${holder.pid}. ` +
      `Stop that agent first (kill ${holder.pid}; its runs go on), or give this one another state folder. The lock is ${path}.`,
    { details: { pid: holder.pid } },
  );
}
