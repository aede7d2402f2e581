/** @file Lets one `up` or `down` of a fleet work at a time; another one waits and names the process that it waits for. */

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { PRIVATE_DIR } from "../../access/private-files.ts";
import { lockHolder, withLock } from "../../agent/system/process-lock.ts";
import type { CommandContext } from "../command/command-context.ts";

/** Beside the state folder and not in it, because `down --purge` removes that. */
export async function oneAtATime<T>(
  context: Pick<CommandContext, "say">,
  stateDir: string,
  work: () => Promise<T>,
): Promise<T> {
  mkdirSync(dirname(stateDir), { recursive: true, mode: PRIVATE_DIR });
  const onWait = (holder: string): void => {
    context.say(`waiting for ${holder}, which is bringing this fleet up or down`);
  };
  return await withLock(lockFileOf(stateDir), { onWait }, work);
}

/** Whether another one is at work, for who need not wait. */
export const isAtWork = (stateDir: string): boolean =>
  lockHolder(lockFileOf(stateDir)) !== undefined;

const lockFileOf = (stateDir: string): string => `${stateDir}.lock`;
