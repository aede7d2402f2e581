/**
 * @file Where an agent keeps its lasting state, below its state folder:
 *
 *     <state>/<fleet>/hosts/<cluster>/<host>/   agent.lock, epoch, tokens.json, contact.json, gpus.json, refuse
 *     <state>/<fleet>/hosts/<cluster>/<host>/leases/<lease>/   one launch, see launch-files.ts
 *     <state>/<fleet>/jobs/<job>/checkpoints/   shared by all hosts that share the state folder
 *
 * `refuse` is written by hand: while it exists the host starts no run, and its text is the reason given to jobs.
 * Ids come from outside, so each becomes one folder name without a meaning to a file system.
 */

import { createHash } from "node:crypto";
import { join } from "node:path";
import type { HostId, JobId, LeaseId } from "../../domain/values/ids.ts";
import type { Files } from "../ports/files.ts";

export interface HostLayout {
  readonly dir: string;
  readonly lock: string;
  readonly epoch: string;
  readonly tokens: string;
  readonly gpus: string;
  readonly refuse: string;
  readonly leases: string;
  leaseDir(lease: LeaseId): string;
  checkpointDir(job: JobId): string;
}

export interface HostPlace {
  /** Folder of all agents of this machine. */
  readonly stateDir: string;
  readonly fleet: string;
  readonly id: HostId;
}

/** Makes the host's folder. Links are resolved once: the folder's name marks processes and must never change. */
export function hostLayout(files: Files, { stateDir, fleet, id }: HostPlace): HostLayout {
  const named = join(stateDir, folderName(fleet));
  files.makeFolder(named);
  const fleetDir = files.realPath(named);
  const dir = join(fleetDir, "hosts", ...id.split("/").map(folderName));
  const leases = leasesIn(dir);
  files.makeFolder(leases);
  return {
    dir,
    lock: join(dir, "agent.lock"),
    epoch: join(dir, "epoch"),
    tokens: join(dir, "tokens.json"),
    gpus: join(dir, "gpus.json"),
    refuse: join(dir, "refuse"),
    leases,
    leaseDir: (lease) => join(leases, folderName(lease)),
    checkpointDir: (job) => join(fleetDir, "jobs", folderName(job), "checkpoints"),
  };
}

/** Of a host's folder, its own or another's. */
export const leasesIn = (dir: string): string => join(dir, "leases");

const OWNER_DIGITS = 16;

/** One short name for these words; different words get different names. */
export const ownerName = (words: readonly string[]): string =>
  createHash("sha256").update(JSON.stringify(words)).digest("hex").slice(0, OWNER_DIGITS);

const LONGEST_NAME = 120;

/** Any id as one plain folder name; different ids get different names. */
export function folderName(id: string): string {
  const plain = encodeURIComponent(id).replace(/^\.+/, (dots) => "%2E".repeat(dots.length));
  if (plain.length <= LONGEST_NAME) return plain;
  return `${plain.slice(0, LONGEST_NAME)}-${createHash("sha256").update(id).digest("hex").slice(0, 16)}`;
}
