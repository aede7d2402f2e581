/**
 * @file Unix sockets by which users of this machine ask the service: one for each, which that user alone can open, so the socket says who asks.
 *
 * The folder belongs to the service's user and nobody else can write it, so no other process puts a socket there. A socket is private from its first
 * moment; then it is handed to its user, which only root can do.
 */

import { chmodSync, chownSync, lstatSync, mkdirSync, rmSync } from "node:fs";
import type { Server } from "node:http";
import { connect } from "node:net";
import { dirname, join, resolve as absolute } from "node:path";
import { PRIVATE_DIR, withPrivateUmask } from "../access/private-files.ts";
import { OrbweaverError } from "../domain/values/failure.ts";

/** The kernel's `sun_path` without its end. */
const MAX_PATH_BYTES = 107;
const OTHERS_WRITE = 0o022;
const PASSABLE_DIR = 0o755;

export const socketIn = (folder: string, user: string): string => join(folder, `${user}.sock`);

/** Makes the folder; throws BAD_INPUT where others may write it. */
export function prepareFolder(folder: string, isForOthers: boolean): void {
  const wrong = (why: string): OrbweaverError =>
    new OrbweaverError(
      "BAD_INPUT",
      `sockets cannot be made in ${folder}: ${why}. Name another folder (--socket-dir).`,
    );
  try {
    for (const dir of [dirname(folder), folder])
      makeFolder(absolute(dir), isForOthers ? PASSABLE_DIR : PRIVATE_DIR);
  } catch (error) {
    throw wrong(error instanceof Error ? error.message : String(error));
  }
  const found = lstatSync(folder);
  if (!found.isDirectory() || found.uid !== process.getuid?.() || (found.mode & OTHERS_WRITE) !== 0)
    throw wrong("it must be a folder of this user that nobody else may write");
}

/** With this mode, whatever the process's umask says; a folder that is there keeps its own. */
function makeFolder(dir: string, mode: number): void {
  const made = mkdirSync(dir, { recursive: true, mode });
  if (made === undefined) return;
  for (let each = dir; each.startsWith(absolute(made)); each = dirname(each)) chmodSync(each, mode);
}

/** Throws BAD_INPUT where it cannot listen, or another service does. */
export async function listenAt(server: Server, path: string, uid: number): Promise<void> {
  const wrong = (why: string): OrbweaverError =>
    new OrbweaverError("BAD_INPUT", `the submit service cannot listen at ${path}: ${why}`);
  if (Buffer.byteLength(path) > MAX_PATH_BYTES)
    throw wrong("the path is too long for a socket. Name a shorter folder (--socket-dir)");
  if (await isServed(path)) throw wrong("another one serves it already");
  rmSync(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(wrong(error.message)));
    // The socket is made before `listen` returns.
    withPrivateUmask(() => server.listen(path, resolve));
  });
  chmodSync(path, 0o600);
  if (uid !== process.getuid?.()) chownSync(path, uid, -1);
}

const isServed = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const asking = connect(path);
    asking.once("connect", () => {
      asking.destroy();
      resolve(true);
    });
    asking.once("error", () => resolve(false));
  });
