/** @file Lets one `up` or `down` of a fleet work at a time; another one waits and names the process that it waits for. */

import { accessSync, constants, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { PRIVATE_DIR } from "../../access/private-files.ts";
import { lockHolder, withLock } from "../../agent/system/process-lock.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { hasErrorCode } from "../../lib/error-code.ts";
import type { CommandContext } from "../command/command-context.ts";

/** Beside the state folder and not in it, because `down --purge` removes that. */
export async function oneAtATime<T>(
  context: Pick<CommandContext, "say">,
  stateDir: string,
  work: () => Promise<T>,
): Promise<T> {
  openFolder(dirname(stateDir));
  const onWait = (holder: string): void => {
    context.say(`waiting for ${holder}, which is bringing this fleet up or down`);
  };
  return await withLock(lockFileOf(stateDir), { onWait }, work);
}

/** Throws NOT_ALLOWED where it is another user's. */
function openFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true, mode: PRIVATE_DIR });
    accessSync(folder, constants.W_OK);
  } catch (error) {
    if (!hasErrorCode(error, "EACCES")) throw error;
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `fleets are kept in ${folder}, which you may not write. Run this as the user who runs \`orbweaver up\`, or name a folder of yours: ORBWEAVER_STATE_DIR.`,
      { cause: error },
    );
  }
}

/** Whether another one is at work, for who need not wait. */
export const isAtWork = (stateDir: string): boolean =>
  lockHolder(lockFileOf(stateDir)) !== undefined;

const lockFileOf = (stateDir: string): string => `${stateDir}.lock`;
