/**
 * @file Lets one process at a time fill the cache; the others wait, say so, and find the result.
 *
 * The lock is a file that names its holder and that the holder touches while it works. It is stale
 * when the holder's process is gone from this machine, or when nobody touched it for a minute (a
 * holder on another machine or in another container, or a process id that was used again).
 * It only saves work: the rename into place keeps the cache whole, so the rare moment in which two
 * take over one stale lock costs time, not correctness.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

export interface LockOptions {
  /** Called once with who holds the lock, and again each time the holder changes. */
  readonly onWait: (holder: string) => void;
}

const TOUCH_EVERY_MS = 5_000;
const UNTOUCHED_IS_STALE_MS = 60_000;
const LOOK_EVERY_MS = 200;

/** Runs `work` while this process holds `file`. */
export async function withLock<T>(
  file: string,
  options: LockOptions,
  work: () => Promise<T>,
): Promise<T> {
  const content = JSON.stringify({ pid: process.pid, host: hostname(), nonce: randomUUID() });
  await acquire(file, content, options);
  const touching = setInterval(() => {
    const now = new Date();
    // A lock that was taken over or a full disk: the work goes on either way.
    utimes(file, now, now).catch(() => undefined);
  }, TOUCH_EVERY_MS);
  try {
    return await work();
  } finally {
    clearInterval(touching);
    if ((await contentOf(file)) === content) await rm(file, { force: true });
  }
}

async function acquire(file: string, content: string, options: LockOptions): Promise<void> {
  let lastHolder: string | undefined;
  for (;;) {
    if (await create(file, content)) return;
    const held = await contentOf(file);
    if (held === undefined) continue;
    if (await isStale(file, held)) {
      await takeAway(file, held);
      continue;
    }
    if (held !== lastHolder) {
      lastHolder = held;
      options.onWait(describeHolder(held));
    }
    await sleep(LOOK_EVERY_MS);
  }
}

async function create(file: string, content: string): Promise<boolean> {
  try {
    await writeFile(file, content, { flag: "wx" });
    return true;
  } catch (error) {
    if (hasCode(error, "EEXIST")) return false;
    throw error;
  }
}

/** Moves a stale lock aside; puts it back when it turns out to be a new one. */
async function takeAway(file: string, judged: string): Promise<void> {
  const aside = `${file}.${randomUUID()}`;
  try {
    await rename(file, aside);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return;
    throw error;
  }
  if ((await contentOf(aside)) === judged) await rm(aside, { force: true });
  else await rename(aside, file);
}

async function isStale(file: string, content: string): Promise<boolean> {
  const holder = parseHolder(content);
  if (holder !== undefined && holder.host === hostname() && !isAlive(holder.pid)) return true;
  try {
    const { mtimeMs } = await stat(file);
    return Date.now() - mtimeMs > UNTOUCHED_IS_STALE_MS;
  } catch (error) {
    if (hasCode(error, "ENOENT")) return false;
    throw error;
  }
}

/** Whether a process runs; a zombie has ended, although signal 0 still reaches it. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return hasCode(error, "EPERM");
  }
  try {
    const status = readFileSync(`/proc/${String(pid)}/stat`, "utf8");
    return !/^\) [ZX]/.test(status.slice(status.lastIndexOf(")")));
  } catch {
    // No /proc on this platform, or the process ended just now: the next look decides.
    return true;
  }
}

interface Holder {
  readonly pid: number;
  readonly host: string;
}

function parseHolder(content: string): Holder | undefined {
  try {
    const value: unknown = JSON.parse(content);
    if (typeof value !== "object" || value === null) return undefined;
    if (!("pid" in value) || typeof value.pid !== "number") return undefined;
    if (!("host" in value) || typeof value.host !== "string") return undefined;
    return { pid: value.pid, host: value.host };
  } catch {
    // Read between the creation of the file and its first write.
    return undefined;
  }
}

function describeHolder(content: string): string {
  const holder = parseHolder(content);
  if (holder === undefined) return "another process";
  const place = holder.host === hostname() ? "" : ` on ${holder.host}`;
  return `process ${String(holder.pid)}${place}`;
}

async function contentOf(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
