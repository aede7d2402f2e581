/**
 * @file The cache of the server's program.
 *
 * `<user's cache folder>/orbweaver/temporal-<version>-<platform>-<arch>/temporal`; the user's cache folder is
 * ORBWEAVER_CACHE_DIR if set, else the platform's own. A new program is made in a folder beside its slot, must print its
 * version, and is renamed into place, so no reader sees half of one.
 */
import { chmod, mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import type { Environment } from "./environment.ts";
import { hasErrorCode } from "../../lib/error-code.ts";
import { PINNED_SERVER, checkBinary } from "./version.ts";
import type { VersionCheck } from "./version.ts";

export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly arch: NodeJS.Architecture;
}

export interface CacheSlot {
  /** Orbweaver's cache folder, where half-made programs live too. */
  readonly folder: string;
  readonly binary: string;
  readonly lockFile: string;
  readonly partialPrefix: string;
}

/** Half-made programs older than this belong to no running process. */
const LEFTOVER_AGE_MS = 24 * 3_600_000;

/** The user's cache folder by the platform's convention. */
export function userCacheFolder(env: Environment, platform: NodeJS.Platform): string {
  const override = env["ORBWEAVER_CACHE_DIR"];
  if (override !== undefined && override !== "") return override;
  const home = env["HOME"] ?? homedir();
  switch (platform) {
    case "darwin":
      return join(home, "Library", "Caches");
    case "win32":
      return env["LOCALAPPDATA"] ?? join(home, "AppData", "Local");
    default: {
      const xdg = env["XDG_CACHE_HOME"];
      // The XDG rules say that a relative path is to be ignored.
      return xdg !== undefined && isAbsolute(xdg) ? xdg : join(home, ".cache");
    }
  }
}

export function cacheSlot(cacheDir: string, machine: Machine): CacheSlot {
  const folder = join(cacheDir, "orbweaver");
  const key = `temporal-${PINNED_SERVER.cli}-${machine.platform}-${machine.arch}`;
  return {
    folder,
    binary: join(folder, key, programName(machine.platform)),
    lockFile: join(folder, `${key}.lock`),
    partialPrefix: `partial-${key}-`,
  };
}

export function programName(platform: NodeJS.Platform): string {
  return platform === "win32" ? "temporal.exe" : "temporal";
}

/** The content of the slot: nothing, a working program, or a broken one. */
export type CacheCheck = { readonly kind: "absent" } | VersionCheck;

export async function checkSlot(slot: CacheSlot, env: Environment): Promise<CacheCheck> {
  try {
    await stat(slot.binary);
  } catch (error) {
    if (hasErrorCode(error, "ENOENT") || hasErrorCode(error, "ENOTDIR")) return { kind: "absent" };
    throw error;
  }
  return await checkBinary(slot.binary, env);
}

/** Runs `make` in a fresh folder beside the slot and removes that folder afterwards. */
export async function inPartialFolder<T>(
  slot: CacheSlot,
  make: (folder: string) => Promise<T>,
): Promise<T> {
  await removeLeftovers(slot);
  const folder = await mkdtemp(join(slot.folder, slot.partialPrefix));
  try {
    return await make(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Puts `program` into the slot if it runs and is new enough. */
export async function install(
  program: string,
  slot: CacheSlot,
  env: Environment,
): Promise<VersionCheck> {
  await chmod(program, 0o755);
  const check = await checkBinary(program, env);
  if (check.kind === "fits") {
    await mkdir(join(slot.binary, ".."), { recursive: true });
    await rename(program, slot.binary);
  }
  return check;
}

export async function discard(slot: CacheSlot): Promise<void> {
  await rm(join(slot.binary, ".."), { recursive: true, force: true });
}

async function removeLeftovers(slot: CacheSlot): Promise<void> {
  for (const name of await readdir(slot.folder)) {
    if (!name.startsWith(slot.partialPrefix)) continue;
    const folder = join(slot.folder, name);
    const { mtimeMs } = await stat(folder).catch(() => ({ mtimeMs: Infinity }));
    if (Date.now() - mtimeMs > LEFTOVER_AGE_MS) await rm(folder, { recursive: true, force: true });
  }
}
