/**
 * @file Large things by hash, so that they travel in no payload: by default a folder of JSON files named by their SHA-256.
 *
 * Writing is by rename, so a reader sees a whole file or none; equal content is one file. Reading holds the content against
 * its name. A hash that is not there reads as undefined: what depends on it does without. What nothing refers to any more
 * goes by age.
 */

import { createHash, randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { OrbweaverError } from "../domain/failure.ts";
import type { Fleet, HostDetails } from "../domain/fleet.ts";
import type { HostId } from "../domain/ids.ts";

/**
 * What a store must do. An object store fits as well: `put` writes under the hash, `get` reads and checks, `discard` is its own
 * expiry rule. It is read by the fleet's worker, which must reach it.
 */
export interface Store {
  /** Answers with the hash of the value's JSON. Done again with equal content it refreshes the age. */
  put(value: unknown): Promise<string>;
  /** Undefined when it is not there; throws when what is there is not what was put. */
  get<Value>(hash: string): Promise<Value | undefined>;
  /** Removes what is older than `olderThanMs` and not in `keep`; answers with how many that were. */
  discard(options: {
    readonly keep: readonly string[];
    readonly olderThanMs: number;
    readonly nowMs: number;
  }): Promise<number>;
}

/** A fleet's measured tables as they are stored. */
export interface FleetDetails {
  readonly hosts: readonly (readonly [HostId, HostDetails])[];
  readonly interHost: readonly (readonly [string, unknown])[];
}

export const fleetDetails = ({ details, interHost }: Fleet): FleetDetails => ({
  hosts: [...details],
  interHost: [...interHost],
});

/** `<hash>.json`, or `.<hash>.<uuid>` while it is written. */
const STORED = /^(?:([0-9a-f]{64})\.json|\.[0-9a-f]{64}\.[0-9a-f-]{36})$/;

export function directoryStore(dir: string): Store {
  const fileOf = (hash: string): string => path.join(dir, `${hash}.json`);
  return {
    async put(value) {
      const text = JSON.stringify(value);
      const hash = hashOf(text);
      await mkdir(dir, { recursive: true });
      const temporary = path.join(dir, `.${hash}.${randomUUID()}`);
      await writeFile(temporary, text);
      await rename(temporary, fileOf(hash));
      return hash;
    },
    async get<Value>(hash: string) {
      if (!/^[0-9a-f]{64}$/.test(hash)) return undefined;
      const file = fileOf(hash);
      const text = await readFile(file, "utf8").catch(unlessMissing);
      if (text === undefined) return undefined;
      if (hashOf(text) !== hash) {
        throw new OrbweaverError(
          "BAD_INPUT",
          `the stored file ${file} is damaged: its content does not have the hash that it is named by. Remove it, and give the fleet's description again with \`orbweaver fleet apply\`.`,
        );
      }
      // What has the right hash is what was put.
      return JSON.parse(text) as Value;
    },
    async discard({ keep, olderThanMs, nowMs }) {
      const names = (await readdir(dir).catch(unlessMissing)) ?? [];
      let count = 0;
      for (const name of names) {
        const match = STORED.exec(name);
        if (match === null || keep.includes(match[1] ?? "")) continue;
        const file = path.join(dir, name);
        const found = await stat(file).catch(unlessMissing);
        if (found === undefined || nowMs - found.mtimeMs <= olderThanMs) continue;
        await rm(file, { force: true });
        count += 1;
      }
      return count;
    },
  };
}

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");

function unlessMissing(error: unknown): undefined {
  if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
  throw error;
}
