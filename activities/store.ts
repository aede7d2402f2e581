/**
 * @file Stores large values by hash, so that payloads stay small: by default, a folder of JSON files named by their SHA-256.
 *
 * Files are written by rename, so a reader sees a whole file or none; equal content is one file. A read verifies the content
 * against its name. An unknown hash reads as undefined, and its users do without. Values to which nothing refers are for
 * `orbweaver house --collect`.
 */

import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { PRIVATE_DIR, PRIVATE_FILE } from "../access/private-files.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { Fleet, HostDetails } from "../domain/fleet/fleet.ts";
import type { HostId } from "../domain/values/ids.ts";
import { hasErrorCode } from "../lib/error-code.ts";

/**
 * The port of a store. An object store fits as well: `put` writes under the hash, `get` reads and verifies. The
 * fleet's worker must be able to read it.
 */
export interface Store {
  /** Returns the hash of the value's JSON; repeated with equal content it renews the file's time. */
  put(value: unknown): Promise<string>;
  /** Undefined when absent; throws when the content does not match its hash. */
  get<Value>(hash: string): Promise<Value | undefined>;
  /** Removes the value; does nothing when it is absent. */
  remove(hash: string): Promise<void>;
}

/** Lobbies keep their pages in a folder of their own inside the fleet's store. */
export const lobbyStoreDir = (storeDir: string): string => path.join(storeDir, "lobby");

/** A fleet's measured tables as they are stored. */
export interface FleetDetails {
  readonly hosts: readonly (readonly [HostId, HostDetails])[];
  readonly interHost: readonly (readonly [string, unknown])[];
}

export const fleetDetails = ({ details, interHost }: Fleet): FleetDetails => ({
  hosts: [...details],
  interHost: [...interHost],
});

export function directoryStore(dir: string): Store {
  const fileOf = (hash: string): string => path.join(dir, `${hash}.json`);
  return {
    async put(value) {
      const text = JSON.stringify(value);
      const hash = hashOf(text);
      await mkdir(dir, { recursive: true, mode: PRIVATE_DIR });
      const temporary = path.join(dir, `.${hash}.${randomUUID()}`);
      await writeFile(temporary, text, { mode: PRIVATE_FILE });
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
          `the stored file ${file} is damaged: its content does not match the hash in its name. Remove it, and apply the fleet's file again with \`orbweaver fleet apply\`.`,
        );
      }
      // Content with the right hash is the content that was put.
      return JSON.parse(text) as Value;
    },
    async remove(hash) {
      if (/^[0-9a-f]{64}$/.test(hash)) await rm(fileOf(hash), { force: true });
    },
  };
}

/** `<hash>.json`, or `.<hash>.<uuid>` while it is written. */
const STORED = /^(?:([0-9a-f]{64})\.json|\.[0-9a-f]{64}\.[0-9a-f-]{36})$/;

export const isStored = (name: string): boolean => STORED.test(name);

/** The hash of a value's file; undefined of any other, and of one that is being written. */
export const hashIn = (name: string): string | undefined => STORED.exec(name)?.[1];

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");

function unlessMissing(error: unknown): undefined {
  if (hasErrorCode(error, "ENOENT")) return undefined;
  throw error;
}
