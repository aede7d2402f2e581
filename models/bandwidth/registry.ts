/**
 * @file The versions of one cluster's bandwidth model as folders, and which of them serves.
 *
 *     <store>/models/<cluster>/v7/VERSION.json    the manifest, and beside it the files that it names
 *     <store>/models/<cluster>/serving.json       the version that serves, and those that did before
 *
 * A version is written under a temporary name, every file synced, and renamed: it exists whole or not at all, and never changes
 * again. `serving.json` is replaced in the same way. So a crash at any point leaves the version that served before, and the same
 * order done again ends alike. Only a version whose gate holds can be published; the one that serves and the last ones that did are
 * never discarded. A file that does not have the hash of its manifest is refused when it is read.
 * One writer at a time is expected (the cluster's model workflow has one activity open), two do no harm: the later one publishes.
 */

import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import path from "node:path";
import { OrbweaverError } from "../../domain/values/failure.ts";
import {
  readManifest,
  readServingNote,
  type ModelManifest,
  type ReadNote,
  type ServingNote,
} from "../../domain/model/model-manifest.ts";

export type ModelFiles = ReadonlyMap<string, Uint8Array>;

/** A version before it has a number and files on disk. */
export type ModelDraft = Omit<ModelManifest, "format" | "version" | "files">;

export interface ModelRegistry {
  readonly dir: string;
  /** Every version that is whole, oldest first. */
  list(): Promise<readonly ModelManifest[]>;
  manifest(version: string): Promise<ModelManifest | undefined>;
  /** Throws BAD_INPUT when a file is damaged, NOT_FOUND when there is no such version. */
  files(manifest: ModelManifest): Promise<ModelFiles>;
  /** Writes a version under the next number; the one that this order has made before, if it has. */
  add(draft: ModelDraft, files: ModelFiles): Promise<ModelManifest>;
  serving(): Promise<ServingNote | undefined>;
  /** Throws NOT_ALLOWED when the version's gate does not hold. */
  publish(settings: PublishSettings): Promise<ServingNote>;
  /** Removes versions that are no longer needed, and abandoned temporary files; gives the removed versions. */
  discard(options: DiscardOptions): Promise<readonly string[]>;
}

interface DiscardOptions {
  readonly keepNewest: number;
  readonly nowMs: number;
}

interface PublishSettings {
  readonly version: string;
  readonly order: string;
  readonly nowMs: number;
}

/** What is done to the disk, one call a step; tests stop between any two. */
export interface DiskSteps {
  makeFolder(dir: string): Promise<void>;
  /** Written and synced. */
  write(file: string, bytes: Uint8Array): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Makes renames in the folder outlive a power cut. */
  syncFolder(dir: string): Promise<void>;
  remove(dir: string): Promise<void>;
}

const MANIFEST = "VERSION.json";
const SERVING = "serving.json";
/** Begins the names of what is being written. */
const ASIDE = ".aside-";
/** A temporary file of this age was abandoned. */
const ASIDE_KEPT_MS = 3_600_000;
/** Versions that served before the present one and can be rolled back to. */
const FORMER_KEPT = 8;

/** Ids come from outside: any becomes one plain folder name, and different ones different names. */
export const modelDirOf = (storeDir: string, cluster: string): string =>
  path.join(storeDir, "models", encodeURIComponent(cluster).replaceAll(".", "%2E"));

export function openRegistry(dir: string, disk: DiskSteps = realDisk): ModelRegistry {
  const folderOf = (version: string): string => path.join(dir, version);

  const manifestOf: ModelRegistry["manifest"] = (version) =>
    /^v\d{1,9}$/.test(version)
      ? readAs(path.join(folderOf(version), MANIFEST), readManifest)
      : Promise.resolve(undefined);

  const servingNote: ModelRegistry["serving"] = () =>
    readAs(path.join(dir, SERVING), readServingNote);

  async function list(): Promise<readonly ModelManifest[]> {
    const found: ModelManifest[] = [];
    for (const number of await numbersIn(dir)) {
      const manifest = await manifestOf(`v${number}`);
      if (manifest !== undefined) found.push(manifest);
    }
    return found;
  }

  async function filesOf({ version, files }: ModelManifest): Promise<ModelFiles> {
    const read = new Map<string, Uint8Array>();
    for (const { name, sha256 } of files) {
      const file = path.join(folderOf(version), path.basename(name));
      const bytes = await readFile(file).catch(unlessMissing);
      if (bytes === undefined || sha256Of(bytes) !== sha256) {
        throw new OrbweaverError(
          "BAD_INPUT",
          `${file} ${bytes === undefined ? "is missing" : "is damaged"}: ${version} of the bandwidth model cannot be used. Roll back to another version with \`orbweaver model rollback\`.`,
        );
      }
      read.set(name, bytes);
    }
    return read;
  }

  async function add(draft: ModelDraft, files: ModelFiles): Promise<ModelManifest> {
    const made = (await list()).find(({ order }) => order === draft.order);
    if (made !== undefined) return made;
    const aside = path.join(dir, `${ASIDE}${randomUUID()}`);
    await disk.makeFolder(aside);
    for (const [name, bytes] of files)
      await disk.write(path.join(aside, path.basename(name)), bytes);
    for (let number = ((await numbersIn(dir)).at(-1) ?? 0) + 1; ; number += 1) {
      const manifest: ModelManifest = {
        ...draft,
        format: 1,
        version: `v${number}`,
        files: [...files].map(([name, bytes]) => ({
          name,
          bytes: bytes.length,
          sha256: sha256Of(bytes),
        })),
      };
      await disk.write(path.join(aside, MANIFEST), jsonBytes(manifest));
      await disk.syncFolder(aside);
      try {
        await disk.rename(aside, folderOf(manifest.version));
      } catch (error) {
        // Another writer was first with this number.
        if (isTaken(error)) continue;
        throw error;
      }
      await disk.syncFolder(dir);
      return manifest;
    }
  }

  async function publish({ version, order, nowMs }: PublishSettings): Promise<ServingNote> {
    const before = await servingNote();
    if (before?.order === order && before.version === version) return before;
    const manifest = await manifestOf(version);
    if (manifest === undefined) {
      throw new OrbweaverError(
        "NOT_FOUND",
        `there is no version ${version} of this bandwidth model; \`orbweaver model list\` shows those that there are`,
      );
    }
    if (!manifest.gate.holds) {
      throw new OrbweaverError(
        "NOT_ALLOWED",
        `${version} did not pass its gate and cannot serve: ${manifest.gate.reason}`,
      );
    }
    // What is damaged must not take the place of what works.
    await filesOf(manifest);
    const former = [...(before?.former ?? []), ...(before === undefined ? [] : [before.version])];
    const note: ServingNote = {
      format: 1,
      version,
      generation: (before?.generation ?? 0) + 1,
      publishedAtMs: nowMs,
      former: former.filter((earlier) => earlier !== version).slice(-FORMER_KEPT),
      order,
    };
    const aside = path.join(dir, `${ASIDE}${randomUUID()}`);
    await disk.write(aside, jsonBytes(note));
    await disk.rename(aside, path.join(dir, SERVING));
    await disk.syncFolder(dir);
    return note;
  }

  async function discard({ keepNewest, nowMs }: DiscardOptions): Promise<readonly string[]> {
    for (const name of (await readdir(dir).catch(unlessMissing)) ?? []) {
      if (!name.startsWith(ASIDE)) continue;
      const found = await stat(path.join(dir, name)).catch(unlessMissing);
      if (found !== undefined && nowMs - found.mtimeMs > ASIDE_KEPT_MS)
        await disk.remove(path.join(dir, name));
    }
    const serving = await servingNote();
    const needed = new Set([...(serving?.former ?? []), ...(serving ? [serving.version] : [])]);
    const numbers = await numbersIn(dir);
    const gone: string[] = [];
    for (const number of numbers.slice(0, Math.max(0, numbers.length - keepNewest))) {
      const version = `v${number}`;
      if (needed.has(version)) continue;
      const aside = path.join(dir, `${ASIDE}${randomUUID()}`);
      // A version that is half removed must not look like one.
      await disk.rename(folderOf(version), aside);
      await disk.remove(aside);
      gone.push(version);
    }
    return gone;
  }

  return {
    dir,
    list,
    manifest: manifestOf,
    files: filesOf,
    add,
    serving: servingNote,
    publish,
    discard,
  };
}

/** Numbers of the folders that look like versions, ascending. */
async function numbersIn(dir: string): Promise<readonly number[]> {
  const names = (await readdir(dir).catch(unlessMissing)) ?? [];
  return names
    .flatMap((name) => (/^v\d{1,9}$/.test(name) ? [Number(name.slice(1))] : []))
    .sort((a, b) => a - b);
}

/** Undefined when the file is not there; one that is not what it should be is refused. */
async function readAs<Note>(
  file: string,
  readNote: (value: unknown) => ReadNote<Note>,
): Promise<Note | undefined> {
  const text = await readFile(file, "utf8").catch(unlessMissing);
  if (text === undefined) return undefined;
  const found = readNote(parsedJson(text));
  if (found.kind === "read") return found.note;
  throw new OrbweaverError(
    "BAD_INPUT",
    `${file} is not what a bandwidth model's registry writes${found.problem}. Remove the folder that it is in, or put a copy of it back.`,
  );
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const jsonBytes = (value: unknown): Uint8Array =>
  new TextEncoder().encode(`${JSON.stringify(value, null, 2)}\n`);

const sha256Of = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

const codeOf = (error: unknown): unknown =>
  error instanceof Error && "code" in error ? error.code : undefined;
const isTaken = (error: unknown): boolean =>
  ["EEXIST", "ENOTEMPTY"].includes(String(codeOf(error)));

function unlessMissing(error: unknown): undefined {
  if (codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR") return undefined;
  throw error;
}

export const realDisk: DiskSteps = {
  makeFolder: async (dir) => {
    await mkdir(dir, { recursive: true });
  },
  write: async (file, bytes) => {
    await mkdir(path.dirname(file), { recursive: true });
    const handle = await open(file, "w", 0o644);
    try {
      await handle.writeFile(bytes);
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
  rename,
  syncFolder: async (dir) => {
    const handle = await open(dir, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  },
  remove: (dir) => rm(dir, { recursive: true, force: true }),
};
