/**
 * @file The shim's own watch over its host's contact with the control plane, for when the agent is dead or stopped.
 *
 * The agent fences first; half a silence later, and still before the fleet does, the shim kills everything of its launch
 * and notes why, as the agent would have. Without `contact.json` nothing was agreed on, and with `onSilence: hold` this is
 * wanted: then it does nothing. What it finds has to be seen twice, because the file may be met half-written.
 * Needs nothing but Node.
 */

import { contactPath, cutOffMs, readContact, type Contact } from "./contact.ts";
import { launchFiles, type LaunchFiles, type StopNote } from "./launch.ts";
import { phaseOf, rootsOf } from "./local-run.ts";
import { sinceBootMs } from "./monotonic-clock.ts";
import { bootId } from "./process-identity.ts";
import { membersOf } from "./process-table.ts";
import { createOnce } from "./state-files.ts";

/** Of `silenceMs`: how long after its agent a shim acts, and how often it looks. */
const PATIENCE_SHARE = 1 / 2;
const LOOK_SHARE = 1 / 4;
const LOOK_MS = { least: 250, most: 5_000 } as const;
const LOOK_AGAIN_MS = 50;

/** Watches for as long as the shim has anything else to do. */
export function watchContact(dir: string): void {
  const path = contactPath(hostDirOf(dir));
  let isSeenBefore = false;
  const look = (): void => {
    const contact = readContact(path);
    const silentMs = contact && silenceOf(contact);
    if (silentMs !== undefined && isSeenBefore) {
      endLaunch(launchFiles(dir), silentMs);
      return;
    }
    isSeenBefore = silentMs !== undefined;
    setTimeout(look, isSeenBefore ? LOOK_AGAIN_MS : lookEveryMs(contact)).unref();
  };
  look();
}

/** A launch lies somewhere below the host's `leases`. */
const hostDirOf = (dir: string): string => dir.slice(0, dir.lastIndexOf("/leases/"));

function silenceOf(contact: Contact): number | undefined {
  if (contact.bootId !== bootId()) return undefined;
  const patienceMs = contact.silenceMs * PATIENCE_SHARE;
  return cutOffMs(contact, { nowMs: sinceBootMs(), patienceMs });
}

const lookEveryMs = (contact: Contact | undefined): number =>
  contact === undefined
    ? LOOK_MS.most
    : Math.min(LOOK_MS.most, Math.max(LOOK_MS.least, contact.silenceMs * LOOK_SHARE));

/** Not left to the shim's own end: it goes on until nothing of the launch is left. */
function endLaunch(files: LaunchFiles, silentMs: number): void {
  const atMs = Date.now();
  const note: StopNote = {
    reason: "the host was cut off from the control plane, and its agent did not act",
    atMs,
    termAtMs: atMs,
    cutOffMs: Math.round(silentMs),
  };
  try {
    createOnce(files.stop, note);
  } catch {
    // A full disk: that they end matters more than that it is known why.
  }
  const kill = (): void => {
    const members = membersOf(rootsOf(files, phaseOf(files)));
    for (const { pid } of members) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended by itself.
      }
    }
    if (members.length > 0) setTimeout(kill, LOOK_AGAIN_MS);
  };
  kill();
}
