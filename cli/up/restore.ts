/**
 * @file A fleet's state from a backup. The next `up` starts the fleet anew from it, as after the loss of its ledger, because what was granted since
 * the backup is not in it: tokens go on far above, and agents and jobs say what they hold.
 */

import {
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
} from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, normalize, sep } from "node:path";
import { isAlive } from "../../agent/system/process-identity.ts";
import { PRIVATE_DIR } from "../../access/private-files.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { readUpState, writeUpState } from "../../workers/state.ts";
import {
  DATABASE,
  FLEET_FOLDER,
  MANIFEST,
  manifestSchema,
  RECORDS,
  STATE,
  type Manifest,
} from "./backup.ts";
import { livingServer } from "./own-server.ts";
import { databaseFileOf } from "./places.ts";
import { parsedJson } from "../../lib/parsed-json.ts";
import { sha256Of } from "../../workers/server/checksums.ts";

export interface Restored {
  /** Where the former databases and tables are now. */
  readonly aside: string | undefined;
  readonly fleetFile: string;
  /** The fleet's jobs are in this Temporal server, and none of them was restored. */
  readonly elsewhere: string | undefined;
}

/** In the state folder, while a restore is under way; `up` starts nothing beside it. */
export const UNFINISHED = ".restoring";
/** What a state consists of, beside what agents keep there: launches and checkpoints, which stay. */
const PARTS = /^(?:(?:temporal|history)\.db(?:[.-].*)?|store|fleet|up\.json)$/;
const isRecord = (name: string): boolean => RECORDS.some((record) => record === name);

export async function restoreBackup({
  folder,
  manifest,
  stateDir: to,
  isForced,
  nowMs,
}: {
  readonly folder: string;
  readonly manifest: Manifest;
  readonly stateDir: string;
  /** A state that is there is moved aside. */
  readonly isForced: boolean;
  readonly nowMs: number;
}): Promise<Restored> {
  await verify(folder, manifest);
  await refuseLiving(to, manifest.fleet);
  mkdirSync(to, { recursive: true, mode: PRIVATE_DIR });
  const former = readdirSync(to).filter((name) => PARTS.test(name));
  if (former.length > 0 && !isForced)
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `${to} has a state of fleet ${manifest.fleet}. Add --force to move it aside; launches and checkpoints of jobs stay.`,
    );
  const made = join(to, UNFINISHED);
  rmSync(made, { recursive: true, force: true });
  mkdirSync(made, { mode: PRIVATE_DIR });
  for (const { path } of manifest.files) {
    mkdirSync(dirname(join(made, path)), { recursive: true, mode: PRIVATE_DIR });
    copyFileSync(join(folder, path), join(made, path));
  }
  const settled = await settleState(made, { to, manifest });
  const aside = former.length > 0 ? join(to, `before-${String(nowMs)}`) : undefined;
  if (aside !== undefined) mkdirSync(aside, { mode: PRIVATE_DIR });
  for (const name of former) renameSync(join(to, name), join(aside ?? to, name));
  // The records of today have those of the backup, and more.
  for (const name of readdirSync(made))
    if (!isRecord(name) || !existsSync(join(to, name)))
      renameSync(join(made, name), join(to, name));
  rmSync(made, { recursive: true });
  return { aside, ...settled };
}

/** `fleet`: of which it must be; absent: of any. */
export async function readManifest(folder: string, fleet: string | undefined): Promise<Manifest> {
  let text: string;
  try {
    text = await readFile(join(folder, MANIFEST), "utf8");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new OrbweaverError(
      "BAD_INPUT",
      `${folder} is no backup: its ${MANIFEST} cannot be read (${code}). Name a folder that \`orbweaver backup\` has written.`,
    );
  }
  const parsed = manifestSchema.safeParse(parsedJson(text));
  if (parsed.success && parsed.data.files.every(({ path }) => isRestored(path))) {
    if (fleet === undefined || fleet === parsed.data.fleet) return parsed.data;
    throw new OrbweaverError(
      "BAD_INPUT",
      `${folder} is of fleet ${parsed.data.fleet}, not of ${fleet}. A fleet's histories name it, so it keeps its name.`,
    );
  }
  throw new OrbweaverError(
    "BAD_INPUT",
    `${join(folder, MANIFEST)} is none that this release writes. Take the backup with this release.`,
  );
}

/** Launches and other things of agents are in no backup: a forged one would have hosts start what nobody has signed. */
function isRestored(path: string): boolean {
  const [first = ""] = path.split(sep);
  return !isAbsolute(path) && normalize(path) === path && (PARTS.test(first) || isRecord(first));
}

const WRITABLE_BY_OTHERS = 0o022;

/**
 * Whoever can write a backup says whose jobs the fleet's hosts start, and what has happened: it must be nobody but root or this user. A link leads to what the
 * manifest's hash was not made of.
 */
function refuseForeign(folder: string, { files }: Manifest): void {
  const named = [MANIFEST, ...files.map(({ path }) => path)];
  const folders = named.flatMap((path) => {
    const parts = path.split(sep);
    return parts.map((_, at) => join(folder, ...parts.slice(0, at)));
  });
  for (const path of new Set([...folders, ...named.map((file) => join(folder, file))])) {
    const found = lstatSync(path, { throwIfNoEntry: false });
    // What is missing is told as that.
    if (found === undefined) continue;
    const isOwn = found.uid === 0 || found.uid === process.getuid?.();
    if (isOwn && (found.mode & WRITABLE_BY_OTHERS) === 0 && !found.isSymbolicLink()) continue;
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `${path} is a link, or belongs to another user, or others may write it; whoever writes a backup says whose jobs hosts start. Nothing was restored. If you trust it, copy it to a folder of your own (\`cp -rL\`), take the rights of others away (\`chmod -R go-w\`), and restore from there.`,
    );
  }
}

/** Nothing is restored from a backup of which one byte is wrong. */
async function verify(folder: string, manifest: Manifest): Promise<void> {
  refuseForeign(folder, manifest);
  for (const { path, sha256 } of manifest.files) {
    const file = join(folder, path);
    if (existsSync(file) && (await sha256Of(file)) === sha256) continue;
    throw new OrbweaverError(
      "BAD_INPUT",
      `${file} is ${existsSync(file) ? "not as it was written" : "missing"}. The backup is damaged, and nothing was restored; take another one.`,
    );
  }
}

async function refuseLiving(stateDir: string, fleet: string): Promise<void> {
  const state = existsSync(stateDir) ? await readUpState(stateDir) : undefined;
  if (livingServer(stateDir, state) === undefined && !(state?.workers ?? []).some(isAlive)) return;
  throw new OrbweaverError(
    "NOT_ALLOWED",
    `fleet ${fleet} is up here. Run \`orbweaver down --fleet ${fleet}\` first.`,
  );
}

/** The state file for its new place. The fleet file is the one of the backup, where that is not the same as the one at its old place. */
async function settleState(
  made: string,
  { to, manifest }: { readonly to: string; readonly manifest: Manifest },
): Promise<Omit<Restored, "aside">> {
  const state = await readUpState(made);
  if (state === undefined) throw new OrbweaverError("BAD_INPUT", `the backup has no ${STATE}.`);
  const copy = join(FLEET_FOLDER, basename(manifest.fleetFile));
  const kept = manifest.files.find(({ path }) => path === copy);
  const isSame =
    existsSync(state.fleetFile) &&
    (kept === undefined || (await sha256Of(state.fleetFile)) === kept.sha256);
  const fleetFile = isSame || kept === undefined ? state.fleetFile : join(to, copy);
  const hasDatabase = manifest.files.some(({ path }) => path === DATABASE);
  await writeUpState(made, {
    ...state,
    fleetFile,
    workers: [],
    ...(hasDatabase && { restoredFromMs: manifest.takenAtMs }),
    ...(state.server && { server: { ...state.server, databaseFile: databaseFileOf(to) } }),
  });
  return { fleetFile, elsewhere: hasDatabase ? undefined : state.configuredAddress };
}
