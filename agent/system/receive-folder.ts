/**
 * @file Gets a packed folder from the first submit service that has it, part by part, and unpacks it. Every part is checked against its hash.
 */

import { createHash } from "node:crypto";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import {
  FOLDER_PART_BYTES,
  MAX_FOLDER_BYTES,
  MAX_FOLDER_ENTRIES,
  MAX_FOLDER_PARTS,
  unpackFolder,
} from "../../streams/folder-pack.ts";

export interface FolderPlace {
  readonly into: string;
  readonly hash: string;
  /** `unix:PATH` or an address, tried in this order. */
  readonly from: readonly string[];
}

const QUIET_MS = 20_000;
/** A list of a folder's entries in JSON beside its bytes. */
const MOST_UNPACKED_BYTES = MAX_FOLDER_BYTES + MAX_FOLDER_ENTRIES * 4_096;

/** Throws Error with the reason of each place. */
export async function receiveFolder({ into, hash, from }: FolderPlace): Promise<void> {
  const reasons: string[] = [];
  for (const place of from) {
    let packed;
    try {
      packed = await packedAt(place, hash);
    } catch (error) {
      reasons.push(`${place}: ${error instanceof Error ? error.message : String(error)}`);
      continue;
    }
    return await writeAll(into, packed);
  }
  throw new Error(reasons.join("; "));
}

async function packedAt(place: string, hash: string): Promise<Buffer> {
  const list = JSON.parse((await partAt(place, hash)).toString("utf8")) as { parts?: unknown };
  const { parts } = list;
  if (!Array.isArray(parts) || parts.length > MAX_FOLDER_PARTS)
    throw new Error("its list of parts has another form");
  const bytes: Buffer[] = [];
  for (const part of parts as readonly unknown[]) bytes.push(await partAt(place, String(part)));
  return gunzipSync(Buffer.concat(bytes), { maxOutputLength: MOST_UNPACKED_BYTES });
}

async function partAt(place: string, hash: string): Promise<Buffer> {
  const path = `/v1/folders/${encodeURIComponent(hash)}`;
  const response = await answerOf(place, path);
  if (response.statusCode !== 200) {
    response.destroy();
    const why =
      response.statusCode === 404
        ? "it has no such folder, or no longer"
        : `it answers with status ${String(response.statusCode)}`;
    throw new Error(why);
  }
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of response as AsyncIterable<Buffer>) {
    bytes += part.length;
    if (bytes > FOLDER_PART_BYTES) throw new Error("a part is too long");
    parts.push(part);
  }
  const whole = Buffer.concat(parts);
  if (createHash("sha256").update(whole).digest("hex") !== hash)
    throw new Error("a part differs from its hash");
  return whole;
}

async function answerOf(place: string, path: string): Promise<IncomingMessage> {
  const options: RequestOptions = { timeout: QUIET_MS, agent: false };
  return await new Promise((resolve, reject) => {
    const asking = place.startsWith("unix:")
      ? httpRequest({ ...options, socketPath: place.slice("unix:".length), path }, resolve)
      : (place.startsWith("https:") ? httpsRequest : httpRequest)(
          new URL(path.slice(1), `${place.replace(/\/$/, "")}/`),
          options,
          resolve,
        );
    asking.once("timeout", () => asking.destroy(new Error("it does not answer")));
    asking.once("error", reject);
    asking.end();
  });
}

const PLAIN = 0o666;
const EXECUTABLE = 0o777;

/** The folder is empty, so nothing in it leads elsewhere but the links that are written last. */
async function writeAll(into: string, packed: Buffer): Promise<void> {
  const entries = unpackFolder(packed);
  const folders = new Set<string>();
  const withFolder = async (path: string): Promise<void> => {
    if (folders.has(path)) return;
    folders.add(path);
    await mkdir(path, { recursive: true });
  };
  for (const entry of entries) {
    const path = join(into, entry.path);
    if ("target" in entry) continue;
    if (!("content" in entry)) {
      await withFolder(path);
      continue;
    }
    await withFolder(dirname(path));
    await writeFile(path, entry.content, {
      flag: "wx",
      mode: entry.isExecutable ? EXECUTABLE : PLAIN,
    });
  }
  for (const entry of entries) {
    if (!("target" in entry)) continue;
    const path = join(into, entry.path);
    await withFolder(dirname(path));
    await symlink(entry.target, path);
  }
}
