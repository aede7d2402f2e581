/**
 * @file The store of working folders: parts by their SHA-256, sent by who may submit jobs, got by hosts that know their names.
 *
 * A name is a right: it is the hash of what it names, and stands in the job that its submitter has signed. Parts are files, written by rename. Each is kept for
 * `keptMs` since it was last sent or read; a store that is full takes nothing more, and one sender, but for the service's own user, fills a quarter of it at
 * most. Beside each part an empty file names its first sender.
 */

import { createHash, randomUUID } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import type { Principal } from "../access/principal.ts";
import { PRIVATE_DIR, PRIVATE_FILE } from "../access/private-files.ts";
import { FOLDER_PART_BYTES } from "../streams/folder-pack.ts";

export const FOLDER_PATH = "/v1/folders";

export interface FolderStore {
  /** Answers with the part, 404 where there is none; whether there is one. */
  readonly send: (hash: string, response: ServerResponse) => Promise<boolean>;
  /** Takes the body as a part of this sender's. */
  readonly take: (request: IncomingMessage, sender: PartSender) => Promise<TakenPart>;
}

export type TakenPart =
  | { readonly kind: "taken"; readonly hash: string }
  | { readonly kind: "refused"; readonly status: number; readonly message: string };

export interface FolderStoreOptions {
  readonly folder: string;
  readonly keptMs?: number;
  readonly mostBytes?: number;
  readonly nowMs?: () => number;
}

const DAY_MS = 86_400_000;
const KEPT_MS = 30 * DAY_MS;
const MOST_BYTES = 10 * 1024 ** 3;
const PART = /^[0-9a-f]{64}$/;
const SENDERS_SHARE = 0.25;
/** A part, and the sender whose it is. */
const OWNED = /^([0-9a-f]{64})\.of\.([0-9a-f]{16})$/;
const OWNER_DIGITS = 16;
const hashOf = (bytes: string | Buffer): string => createHash("sha256").update(bytes).digest("hex");

type PartSender = Pick<Principal, "name" | "isOwner">;

interface Held {
  bytes: number;
  readonly ofOwners: Map<string, number>;
  readonly countedMs: number;
}

/** The hash in a path of a part; undefined for another path. */
export const partIn = (path: string): string | undefined => {
  const [, hash = ""] = /^\/v1\/folders\/([0-9a-f]{64})$/.exec(path) ?? [];
  return hash === "" ? undefined : hash;
};

export function folderStore({
  folder,
  keptMs = KEPT_MS,
  mostBytes = MOST_BYTES,
  nowMs = () => Date.now(),
}: FolderStoreOptions): FolderStore {
  let held: Held | undefined;

  /** The bytes in the store; what is too old goes first. Counted anew once a day. */
  async function counted(): Promise<Held> {
    if (held !== undefined && nowMs() - held.countedMs < DAY_MS) return held;
    let bytes = 0;
    const sizes = new Map<string, number>();
    const names = await readdir(folder).catch(() => []);
    for (const name of names) {
      if (OWNED.test(name)) continue;
      const file = join(folder, name);
      const found = await stat(file).catch(() => undefined);
      if (found === undefined) continue;
      if (nowMs() - found.mtimeMs > (PART.test(name) ? keptMs : DAY_MS)) {
        await rm(file, { force: true });
        continue;
      }
      bytes += found.size;
      sizes.set(name, found.size);
    }
    const ofOwners = new Map<string, number>();
    for (const name of names) {
      const [, part = "", owner = ""] = OWNED.exec(name) ?? [];
      const size = sizes.get(part);
      if (size !== undefined) ofOwners.set(owner, (ofOwners.get(owner) ?? 0) + size);
      else if (part !== "") await rm(join(folder, name), { force: true });
    }
    held = { bytes, ofOwners, countedMs: nowMs() };
    return held;
  }

  const renewed = async (file: string): Promise<boolean> => {
    const now = nowMs() / 1_000;
    return await utimes(file, now, now).then(
      () => true,
      () => false,
    );
  };

  return {
    async send(hash, response) {
      const file = join(folder, hash);
      if (!PART.test(hash) || !(await renewed(file))) {
        response.writeHead(404, { "Content-Type": "text/plain" }).end("there is no such part\n");
        return false;
      }
      response.writeHead(200, {
        "Content-Type": "application/octet-stream",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
      });
      const reading = createReadStream(file);
      reading.once("error", () => response.destroy());
      response.once("close", () => reading.destroy());
      reading.pipe(response);
      return true;
    },
    async take(request, { name: sender, isOwner }) {
      const body = await bytesOf(request);
      if (body === undefined)
        return {
          kind: "refused",
          status: 413,
          message: `a part has more than ${String(FOLDER_PART_BYTES)} bytes`,
        };
      const hash = hashOf(body);
      const file = join(folder, hash);
      if (await renewed(file)) return { kind: "taken", hash };
      const store = await counted();
      if (store.bytes + body.length > mostBytes)
        return {
          kind: "refused",
          status: 507,
          message: `the store of folders is full: ${String(mostBytes)} bytes in ${folder}. What was not read for ${String(keptMs / DAY_MS)} days goes by itself; an operator may remove files there.`,
        };
      const owner = hashOf(sender).slice(0, OWNER_DIGITS);
      const own = (store.ofOwners.get(owner) ?? 0) + body.length;
      if (!isOwner && own > mostBytes * SENDERS_SHARE)
        return {
          kind: "refused",
          status: 507,
          message: `${sender} has ${String(own - body.length)} bytes in the store of folders, and a quarter of its ${String(mostBytes)} is the most of one sender. What was not read for ${String(keptMs / DAY_MS)} days goes by itself.`,
        };
      // Before they are written: others are being taken, too.
      store.bytes += body.length;
      store.ofOwners.set(owner, own);
      try {
        await write(folder, { hash, owner, body });
      } catch (error) {
        store.bytes -= body.length;
        store.ofOwners.set(owner, (store.ofOwners.get(owner) ?? 0) - body.length);
        throw error;
      }
      return { kind: "taken", hash };
    },
  };
}

async function write(
  folder: string,
  { hash, owner, body }: { readonly hash: string; readonly owner: string; readonly body: Buffer },
): Promise<void> {
  await mkdir(folder, { recursive: true, mode: PRIVATE_DIR });
  await writeFile(join(folder, `${hash}.of.${owner}`), "", { mode: PRIVATE_FILE });
  const aside = join(folder, `.${hash}.${randomUUID()}`);
  await writeFile(aside, body, { mode: PRIVATE_FILE });
  await rename(aside, join(folder, hash));
}

async function bytesOf(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > FOLDER_PART_BYTES) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
}
