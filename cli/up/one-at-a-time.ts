/** @file Lets one `up` or `down` of a fleet work at a time; another one waits and says for whom. */

import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { withLock } from "../../workers/server/lock.ts";
import type { Kit } from "../kit.ts";

/** Beside the state folder and not in it, because `down --purge` removes that. */
export async function oneAtATime<T>(
  kit: Kit,
  stateDir: string,
  work: () => Promise<T>,
): Promise<T> {
  mkdirSync(dirname(stateDir), { recursive: true });
  const onWait = (holder: string): void => {
    kit.say(`${holder} works on this fleet; waiting for it`);
  };
  return await withLock(`${stateDir}.lock`, { onWait }, work);
}
