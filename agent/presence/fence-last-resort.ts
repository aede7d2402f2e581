/**
 * @file The shim's own watch over its host's contact with the control plane, for when the agent is dead or stopped.
 *
 * The agent fences first. Half a silence later, and still before the fleet does, the shim kills everything of its launch and notes the
 * reason, as the agent would have. A file that is gone, or that cannot be read any more, leaves what was read last: the folder may be lost while the agent is
 * away, and the fleet counts on. Where the shim never met one no terms were agreed on, and under `onSilence: hold` processes are meant to run on:
 * then it does nothing. It acts on what it has seen twice, because the file may be met half-written.
 * Needs nothing but Node.
 */

import { createJsonOnce } from "../folder/json-files.ts";
import { launchFiles, type StopNote } from "../folder/launch-files.ts";
import type { System } from "../ports/system.ts";
import type { Launch } from "../runs/local-run.ts";
import { killOnce } from "../runs/process-end.ts";
import { contactPath, cutOffMs, readContact, type Contact } from "./last-contact.ts";

/** Of `silenceMs`: how long after its agent a shim acts, and how often it looks. */
const PATIENCE_SHARE = 1 / 2;
const LOOK_SHARE = 1 / 4;
const LOOK_MS = { least: 250, most: 5_000 } as const;
const LOOK_AGAIN_MS = 50;

/** Watches for as long as the shim has anything else to do. */
export function watchContact(dir: string, system: System): void {
  const { files, clock } = system;
  const path = contactPath(hostDirOf(dir));
  let isSeenBefore = false;
  let contact: Contact | undefined;
  const look = (): void => {
    contact = readContact(files, path) ?? contact;
    const silentMs = contact && silenceOf(contact, system);
    if (silentMs !== undefined && isSeenBefore) {
      endLaunch({ files: launchFiles(dir), system }, silentMs);
      return;
    }
    isSeenBefore = silentMs !== undefined;
    clock.after(isSeenBefore ? LOOK_AGAIN_MS : lookEveryMs(contact), look, { isIdle: true });
  };
  look();
}

/** A launch lies somewhere below the host's `leases`. */
const hostDirOf = (dir: string): string => dir.slice(0, dir.lastIndexOf("/leases/"));

function silenceOf(contact: Contact, { processes, clock }: System): number | undefined {
  if (contact.bootId !== processes.bootId()) return undefined;
  const patienceMs = contact.silenceMs * PATIENCE_SHARE;
  return cutOffMs(contact, { nowMs: clock.sinceBootMs(), patienceMs });
}

const lookEveryMs = (contact: Contact | undefined): number =>
  contact === undefined
    ? LOOK_MS.most
    : Math.min(LOOK_MS.most, Math.max(LOOK_MS.least, contact.silenceMs * LOOK_SHARE));

/** Keeps the shim alive until nothing of the launch is left. */
function endLaunch(launch: Launch, silentMs: number): void {
  const { files: paths, system } = launch;
  const { files, clock } = system;
  const atMs = clock.nowMs();
  const note: StopNote = {
    reason: "the host was cut off from the control plane, and its agent did not act",
    atMs,
    termAtMs: atMs,
    cutOffMs: Math.round(silentMs),
  };
  try {
    createJsonOnce(files, paths.stop, note);
  } catch {
    // A full disk: that the processes end matters more than a record of the reason.
  }
  const kill = (): void => {
    if (killOnce(launch)) clock.after(LOOK_AGAIN_MS, kill);
  };
  kill();
}
