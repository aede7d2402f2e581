/**
 * @file Where an agent keeps what must outlive it, below its state folder:
 *
 *     <state>/<fleet>/hosts/<cluster>/<host>/   agent.lock, epoch, tokens.json, contact.json, refuse
 *     <state>/<fleet>/hosts/<cluster>/<host>/leases/<lease>/   one launch, see launch.ts
 *     <state>/<fleet>/jobs/<job>/checkpoints/   shared by all hosts that share the state folder
 *
 * `refuse` is written by hand: while it exists the host starts nothing, and its text is the reason that jobs are told.
 * Ids come from outside, so each becomes one folder name that means nothing to a file system.
 */

import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { join } from "node:path";
import type { HostId, JobId, LeaseId } from "../../domain/ids.ts";
import { makeFolder } from "./state-files.ts";

export interface HostLayout {
  readonly dir: string;
  readonly lock: string;
  readonly epoch: string;
  readonly tokens: string;
  readonly refuse: string;
  readonly leases: string;
  leaseDir(lease: LeaseId): string;
  checkpointDir(job: JobId): string;
}

/** Makes the host's folder. Links are resolved once: the folder's name marks processes and must never change. */
export function hostLayout(stateDir: string, fleet: string, host: HostId): HostLayout {
  const fleetDir = realpathSync(makeFolder(join(stateDir, folderName(fleet))));
  const dir = makeFolder(join(fleetDir, "hosts", ...host.split("/").map(folderName)));
  const leases = makeFolder(join(dir, "leases"));
  return {
    dir,
    lock: join(dir, "agent.lock"),
    epoch: join(dir, "epoch"),
    tokens: join(dir, "tokens.json"),
    refuse: join(dir, "refuse"),
    leases,
    leaseDir: (lease) => join(leases, folderName(lease)),
    checkpointDir: (job) => join(fleetDir, "jobs", folderName(job), "checkpoints"),
  };
}

const LONGEST_NAME = 120;

/** Any id as one plain folder name; different ids get different names. */
export function folderName(id: string): string {
  const plain = encodeURIComponent(id).replace(/^\.+/, (dots) => "%2E".repeat(dots.length));
  if (plain.length <= LONGEST_NAME) return plain;
  return `${plain.slice(0, LONGEST_NAME)}-${createHash("sha256").update(id).digest("hex").slice(0, 16)}`;
}
