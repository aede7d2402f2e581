/**
 * @file A backup of a fleet: a folder with everything that `up` keeps for it and that cannot be made anew, each file with its hash.
 *
 * Databases are copied in one state of theirs while the fleet goes on. The folder gets its name when all of it is written. Private keys, logs and
 * checkpoints are not in it.
 */

import {
  chmodSync,
  constants,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { z } from "zod";
import { PRIVATE_DIR, PRIVATE_FILE } from "../../access/private-files.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { formatProblem } from "../../domain/values/file-problem.ts";
import { readUpState, type UpState } from "../../workers/state.ts";
import { readText } from "../command/fleet-files.ts";
import { databaseFileOf } from "./places.ts";
import { sha256Of } from "../../workers/server/checksums.ts";

const { COPYFILE_FICLONE: FICLONE } = constants;
export const MANIFEST = "backup.json";
export const FLEET_FOLDER = "fleet";
export const HISTORY = "history.db";
export const DATABASE = "temporal.db";
export const STATE = "up.json";
export const STORE = "store";
/** Kept beside the databases, and not to be had anew. */
export const RECORDS = ["audit.jsonl", "measured", "revoked-orders"] as const;

export const manifestSchema = z.object({
  version: z.literal(1),
  fleet: z.string(),
  takenAtMs: z.number(),
  /** Of the fleet file, in `fleet/`. */
  fleetFile: z.string(),
  files: z.array(z.object({ path: z.string(), bytes: z.number(), sha256: z.string() })),
});

export type Manifest = z.infer<typeof manifestSchema>;

export interface Backup {
  readonly manifest: Manifest;
  /** Files that the fleet's file names and that are not in it: they lie elsewhere, or are secrets. */
  readonly left: readonly string[];
  /** What is wrong with the fleet's file. */
  readonly problems: readonly string[];
  /** The fleet's history is in this Temporal server, whose database has a backup of its own. */
  readonly elsewhere: string | undefined;
}

export async function takeBackup({
  fleet,
  stateDir,
  folder,
  nowMs,
}: {
  readonly fleet: string;
  readonly stateDir: string;
  readonly folder: string;
  readonly nowMs: number;
}): Promise<Backup> {
  const state = await readUpState(stateDir);
  if (state === undefined)
    throw new OrbweaverError(
      "NOT_FOUND",
      `there is no fleet ${fleet} in ${dirname(stateDir)}. Run this where \`orbweaver up\` was run, or name the fleet with --fleet.`,
    );
  if (existsSync(folder))
    throw new OrbweaverError("BAD_INPUT", `${folder} is there already. Name a new folder.`);
  mkdirSync(dirname(folder), { recursive: true, mode: PRIVATE_DIR });
  const aside = mkdtempSync(`${folder}.partial-`);
  try {
    const elsewhere = await copyDatabases(state, { stateDir, to: aside });
    for (const name of [STORE, ...RECORDS]) copyTree(join(stateDir, name), join(aside, name));
    const found = copyFleetFiles(state.fleetFile, join(aside, FLEET_FOLDER));
    writeFileSync(join(aside, STATE), JSON.stringify(state, null, 2), { mode: PRIVATE_FILE });
    const manifest: Manifest = {
      version: 1,
      fleet,
      takenAtMs: nowMs,
      fleetFile: basename(state.fleetFile),
      files: await listed(aside),
    };
    writeFileSync(join(aside, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`, {
      mode: PRIVATE_FILE,
    });
    renameSync(aside, folder);
    return { manifest, ...found, elsewhere };
  } finally {
    rmSync(aside, { recursive: true, force: true });
  }
}

/** Returns the address of the server whose database is not here. */
async function copyDatabases(
  { server, configuredAddress }: UpState,
  { stateDir, to }: { readonly stateDir: string; readonly to: string },
): Promise<string | undefined> {
  const history = join(stateDir, HISTORY);
  if (existsSync(history)) await copyDatabase(history, join(to, HISTORY));
  if (configuredAddress !== undefined) return configuredAddress;
  const database = server?.databaseFile ?? databaseFileOf(stateDir);
  if (!existsSync(database))
    throw new OrbweaverError("NOT_FOUND", `the fleet's database ${database} is not there.`);
  await copyDatabase(database, join(to, DATABASE));
  return undefined;
}

const BUSY_MS = 30_000;

/**
 * Copies a database that others write. While a reader is there, checkpoints write nothing beyond what it sees and the log is not begun anew, so the
 * file and then its log make one state; a frame that was torn at the log's end is left out by its checksum. SQLite's own `VACUUM INTO` fails on
 * the server's tables, whose generated columns name texts in double quotes.
 */
async function copyDatabase(from: string, to: string): Promise<void> {
  const { default: Database } = await import("libsql");
  const reader = new Database(from);
  try {
    reader.exec(`PRAGMA busy_timeout = ${String(BUSY_MS)}`);
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM sqlite_schema").get();
    for (const log of ["", "-wal"])
      if (existsSync(`${from}${log}`)) copyPrivate(`${from}${log}`, `${to}${log}`);
    reader.exec("ROLLBACK");
  } finally {
    reader.close();
  }
  const copy = new Database(to);
  try {
    copy.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
    const { quick_check: found } = copy.prepare("PRAGMA quick_check(1)").get() as {
      readonly quick_check: string;
    };
    if (found !== "ok") throw new Error(`the copy of ${from} is damaged: ${found}`);
  } finally {
    copy.close();
  }
  for (const log of ["-wal", "-shm"]) rmSync(`${to}${log}`, { force: true });
}

/** A fleet file may be its group's to write, and a backup is nobody's: `restore` asks for that. */
function copyPrivate(from: string, to: string): void {
  copyFileSync(from, to, FICLONE);
  chmodSync(to, PRIVATE_FILE);
}

/** A file, or a folder with all that is in it. */
function copyTree(from: string, to: string): void {
  const found = lstatSync(from, { throwIfNoEntry: false });
  if (found?.isFile() === true) copyPrivate(from, to);
  if (found?.isDirectory() !== true) return;
  mkdirSync(to, { recursive: true, mode: PRIVATE_DIR });
  for (const name of readdirSync(from))
    // A value that is being written has a name that begins with a dot.
    if (!name.startsWith(".")) copyTree(join(from, name), join(to, name));
}

/** The fleet file, and the measurements that it names where they lie beside it or below. */
function copyFleetFiles(
  fleetFile: string,
  to: string,
): { readonly left: readonly string[]; readonly problems: readonly string[] } {
  const folder = dirname(fleetFile);
  const named = new Set<string>();
  const text = readText(fleetFile);
  if (text.kind === "missing") return { left: [fleetFile], problems: [] };
  const parsed = parseFleetYaml(text.text, {
    file: fleetFile,
    read(name) {
      named.add(resolve(folder, name));
      return readText(resolve(folder, name));
    },
  });
  mkdirSync(to, { recursive: true, mode: PRIVATE_DIR });
  const isSound = parsed.kind === "parsed";
  const left = isSound ? secretsOf(parsed.fleet).map((name) => resolve(folder, name)) : [];
  for (const file of [fleetFile, ...named]) {
    const inside = relative(folder, file);
    if (inside.startsWith("..") || !existsSync(file)) {
      left.push(file);
      continue;
    }
    mkdirSync(dirname(join(to, inside)), { recursive: true, mode: PRIVATE_DIR });
    copyPrivate(file, join(to, inside));
  }
  return { left, problems: isSound ? [] : parsed.problems.map(formatProblem) };
}

const secretsOf = ({ notify = [] }: Fleet): string[] =>
  notify.flatMap(({ secretFile, slackFile }) => [secretFile ?? [], slackFile ?? []].flat());

/** All files below a folder, sorted by path. */
async function listed(folder: string): Promise<Manifest["files"]> {
  const files: Manifest["files"] = [];
  for (const path of filesUnder(folder).sort())
    files.push({
      path,
      bytes: lstatSync(join(folder, path)).size,
      sha256: await sha256Of(join(folder, path)),
    });
  return files;
}

const filesUnder = (folder: string, inside = ""): string[] =>
  readdirSync(join(folder, inside), { withFileTypes: true }).flatMap((entry) => {
    const path = join(inside, entry.name);
    return entry.isDirectory() ? filesUnder(folder, path) : [path];
  });
