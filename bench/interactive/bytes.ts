/** @file Bulk output and input of a session: random bytes of a seed, compared by their hashes. A million bytes are a megabyte. */

import { createCipheriv, createHash } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { openUserSession } from "../../client/session.ts";
import { CHANNEL } from "../../streams/words.ts";
import { openHeard } from "./heard.ts";
import { IDLE_MS, type InteractiveSite } from "./site.ts";

export interface BulkFile {
  readonly path: string;
  readonly bytes: number;
  readonly hash: string;
}

const MEGABYTE = 1_000_000;
const WRITTEN_BYTES = 65_536;

/** A key stream of the seed, so that no part of it is like another. */
export async function makeBulkFile(
  { world }: InteractiveSite,
  { megabytes, seed }: { readonly megabytes: number; readonly seed: number },
): Promise<BulkFile> {
  const path = join(world.dir, "bulk");
  const key = createHash("sha256").update(String(seed)).digest().subarray(0, 16);
  const cipher = createCipheriv("aes-128-ctr", key, Buffer.alloc(16));
  const hash = createHash("sha256");
  const file = createWriteStream(path);
  for (let part = 0; part < megabytes; part += 1) {
    const bytes = cipher.update(Buffer.alloc(MEGABYTE));
    hash.update(bytes);
    if (!file.write(bytes)) await once(file, "drain");
  }
  file.end();
  await once(file, "finish");
  return { path, bytes: megabytes * MEGABYTE, hash: hash.digest("hex") };
}

/** Megabytes a second from the first bytes of the output to its last. */
export async function outputRate({ address, job }: InteractiveSite, file: BulkFile) {
  const hash = createHash("sha256");
  let firstMs: number | undefined;
  let lastMs = 0;
  let later = 0;
  const start = { command: ["cat", file.path], idleMs: IDLE_MS };
  const session = openUserSession(
    address,
    { job, rank: 0, verb: "exec", start },
    {
      onData(channel, bytes, taken) {
        taken();
        if (channel !== CHANNEL.output) return;
        lastMs = performance.now();
        if (firstMs === undefined) firstMs = lastMs;
        else later += bytes.length;
        hash.update(bytes);
      },
      onRoom: () => undefined,
    },
  );
  const exit = await session.over;
  if (exit?.exitCode !== 0 || hash.digest("hex") !== file.hash || firstMs === undefined)
    throw new Error(
      `the output of ${String(file.bytes)} bytes is another: ${JSON.stringify(exit)}`,
    );
  return later / MEGABYTE / ((lastMs - firstMs) / 1_000);
}

/** Megabytes a second from the first write until the program that has read all of it says so. */
export async function inputRate({ address, job, world }: InteractiveSite, file: BulkFile) {
  const path = join(world.dir, "taken");
  const heard = openHeard();
  let onRoom: () => void = () => undefined;
  const command = ["sh", "-c", 'printf ">"; cat > "$0"; printf "<"', path];
  const session = openUserSession(
    address,
    { job, rank: 0, verb: "exec", start: { command, idleMs: IDLE_MS } },
    {
      onData(_channel, bytes, taken) {
        taken();
        heard.add(bytes);
      },
      onRoom: () => onRoom(),
    },
  );
  const over = heard.endsWith(session.over);
  try {
    const bytes = await readFile(file.path);
    await heard.until(">");
    const startedMs = performance.now();
    for (let at = 0; at < bytes.length; at += WRITTEN_BYTES) {
      const room = new Promise<void>((resolve) => {
        onRoom = resolve;
      });
      if (!session.write(CHANNEL.input, bytes.subarray(at, at + WRITTEN_BYTES)))
        await Promise.race([room, over]);
    }
    session.end(CHANNEL.input);
    await heard.until("<");
    const tookMs = performance.now() - startedMs;
    if ((await hashOf(path)) !== file.hash)
      throw new Error(`the program has read another input than ${String(file.bytes)} bytes`);
    return file.bytes / MEGABYTE / (tookMs / 1_000);
  } finally {
    session.close();
    await over;
  }
}

const hashOf = async (path: string): Promise<string> =>
  createHash("sha256")
    .update(await readFile(path))
    .digest("hex");
