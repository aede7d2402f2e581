/** @file At most one agent a host: takes the host's lock, or names the agent that holds it. */

import { OrbweaverError } from "../../domain/values/failure.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { tryLock, type HeldLock } from "./process-lock.ts";

/** Takes the locks of all, and returns what gives them back; or throws HOST_ALREADY_SERVED and holds none. */
export function takeHostLocks(
  hosts: readonly { readonly id: HostId; readonly lock: string }[],
): () => void {
  const taken: HeldLock[] = [];
  const unlock = (): void => {
    for (const lock of taken) lock.release();
  };
  try {
    for (const { id, lock } of hosts) taken.push(takeHostLock(lock, id));
  } catch (error) {
    unlock();
    throw error;
  }
  return unlock;
}

/** Takes the lock, or throws HOST_ALREADY_SERVED. */
export function takeHostLock(path: string, host: HostId): HeldLock {
  const attempt = tryLock(path);
  if (attempt.kind === "taken") return attempt.lock;
  if (attempt.holder === undefined) {
    throw new OrbweaverError(
      "HOST_ALREADY_SERVED",
      `${host}: several agents try to take the lock ${path} at once. Start only one agent for this host.`,
    );
  }
  const { pid } = attempt.holder;
  throw new OrbweaverError(
    "HOST_ALREADY_SERVED",
    `${host} is already served by the agent with process id ${pid}. ` +
      `Stop that agent first (kill ${pid}; its runs go on), or give this one another state folder. The lock is ${path}.`,
    { details: { pid } },
  );
}
