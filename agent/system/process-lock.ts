/**
 * @file A lock that one process holds: a file that names its holder by boot id, pid and start time.
 *
 * `createOnce` decides who holds it: the file appears whole or not at all. The lock of a process that has ended is taken over: its file is moved
 * aside and compared with the file that was found stale. Of two processes that find the same stale lock one moves it; the other moves nothing,
 * or moves the first one's fresh lock and puts it back. Needs nothing but Node, because workers on demand load it first.
 */

import { randomUUID } from "node:crypto";
import { linkSync, renameSync, rmSync, statSync, utimesSync } from "node:fs";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { isAlive, ownIdentity, type ProcessIdentity } from "./process-identity.ts";
import { hasErrorCode } from "../../lib/error-code.ts";
import { createOnce, readFile } from "./state-files.ts";

export interface LockHolder extends ProcessIdentity {
  /** The host name of the holder's machine or container. */
  readonly machine: string;
  /** Tells two locks of one process apart. */
  readonly nonce: string;
}

export interface HeldLock {
  /** Frees the lock; does nothing when another process has taken it over. */
  readonly release: () => void;
  /** Frees the lock and keeps its file, with the holder's identity, under another name. */
  readonly moveTo: (path: string) => void;
}

export type LockAttempt =
  | { readonly kind: "taken"; readonly lock: HeldLock }
  /** `holder` is undefined when other processes are taking the lock at this moment. */
  | { readonly kind: "held"; readonly holder: LockHolder | undefined };

export interface TryOptions {
  /** Whether a lock may be taken over; without it, when its holder does not run on this machine. */
  readonly isStale?: (holder: LockHolder | undefined, path: string) => boolean;
}

const ATTEMPTS = 5;
/** Another user who shares a cache must see who holds its lock. */
const READABLE_FILE = { isShared: true };

/** Takes the lock, or returns its living holder. */
export function tryLock(path: string, { isStale = isEnded }: TryOptions = {}): LockAttempt {
  const own = { ...ownIdentity(), machine: hostname(), nonce: randomUUID() };
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    if (createOnce(path, own, READABLE_FILE)) return { kind: "taken", lock: lockOf(path, own) };
    const holder = readFile<LockHolder>(path);
    if (!isStale(holder, path)) return { kind: "held", holder };
    moveAside(path, holder);
  }
  return { kind: "held", holder: undefined };
}

/** The living process that holds the lock. */
export function lockHolder(path: string): LockHolder | undefined {
  const holder = readFile<LockHolder>(path);
  return isEnded(holder) ? undefined : holder;
}

export interface WaitOptions {
  /** Called with a description of the holder once, and again each time that the holder changes. */
  readonly onWait: (holder: string) => void;
}

const TOUCH_EVERY_MS = 5_000;
const UNTOUCHED_IS_STALE_MS = 60_000;
const LOOK_EVERY_MS = 200;

/**
 * Waits for the lock and runs `work` while this process holds it.
 *
 * The holder touches the file while it works, because a process on another machine or in another container cannot be looked at: its lock
 * is stale when nobody has touched it for a minute.
 */
export async function withLock<T>(
  path: string,
  { onWait }: WaitOptions,
  work: () => Promise<T>,
): Promise<T> {
  const lock = await waitForLock(path, onWait);
  const touching = setInterval(() => touch(path), TOUCH_EVERY_MS);
  try {
    return await work();
  } finally {
    clearInterval(touching);
    lock.release();
  }
}

async function waitForLock(path: string, onWait: WaitOptions["onWait"]): Promise<HeldLock> {
  let lastHolder: string | undefined;
  for (;;) {
    const attempt = tryLock(path, { isStale: isAbandoned });
    if (attempt.kind === "taken") return attempt.lock;
    const { holder } = attempt;
    const nonce = holder?.nonce ?? "";
    if (nonce !== lastHolder) onWait(described(holder));
    lastHolder = nonce;
    await sleep(LOOK_EVERY_MS);
  }
}

const isEnded = (holder: LockHolder | undefined): boolean =>
  holder === undefined || !isAlive(holder);

/** A file without a readable holder was left by a crash of the machine; it goes by its age as well. */
function isAbandoned(holder: LockHolder | undefined, path: string): boolean {
  if (holder?.machine === hostname()) return !isAlive(holder);
  try {
    return Date.now() - statSync(path).mtimeMs > UNTOUCHED_IS_STALE_MS;
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return true;
    throw error;
  }
}

function lockOf(path: string, own: LockHolder): HeldLock {
  const isOurs = (): boolean => readFile<LockHolder>(path)?.nonce === own.nonce;
  return {
    release: () => {
      if (isOurs()) rmSync(path, { force: true });
    },
    moveTo: (other) => {
      if (isOurs()) renameSync(path, other);
    },
  };
}

/** Removes a stale lock; a fresh one that was taken in between is put back. */
function moveAside(path: string, stale: LockHolder | undefined): void {
  const aside = `${path}.${String(process.pid)}.stale`;
  try {
    renameSync(path, aside);
    const moved = readFile<LockHolder>(aside);
    if (!isSameHolder(moved, stale)) linkSync(aside, path);
  } catch (error) {
    // Another process moved the stale lock, or took the lock, first; the next look shows its holder.
    if (!hasErrorCode(error, "ENOENT") && !hasErrorCode(error, "EEXIST")) throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

const isSameHolder = (one: LockHolder | undefined, other: LockHolder | undefined): boolean =>
  one?.pid === other?.pid && one?.started === other?.started && one?.nonce === other?.nonce;

function touch(path: string): void {
  const now = new Date();
  try {
    utimesSync(path, now, now);
  } catch {
    // Taken over, or a full disk: the work goes on either way.
  }
}

/** `process 7`, on another machine with its name. */
function described(holder: LockHolder | undefined): string {
  if (holder === undefined) return "another process";
  const place = holder.machine === hostname() ? "" : ` on ${holder.machine}`;
  return `process ${String(holder.pid)}${place}`;
}
