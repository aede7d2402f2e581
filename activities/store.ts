/**
 * @file Large things by hash: a folder of JSON files named by the SHA-256 of their content.
 *
 * Writing is by rename, so a reader sees a whole file or none; equal content is one file. A hash that is not there reads as
 * undefined: what depends on it does without.
 */

import { createHash, randomUUID } from "node:crypto";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Fleet, HostDetails } from "../domain/fleet.ts";
import type { HostId } from "../domain/ids.ts";

export interface Store {
  put(value: unknown): Promise<string>;
  get<Value>(hash: string): Promise<Value | undefined>;
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

export function directoryStore(dir: string): Store {
  const fileOf = (hash: string): string => path.join(dir, `${hash}.json`);
  return {
    async put(value) {
      const text = JSON.stringify(value);
      const hash = createHash("sha256").update(text).digest("hex");
      await mkdir(dir, { recursive: true });
      const temporary = path.join(dir, `.${hash}.${randomUUID()}`);
      await writeFile(temporary, text);
      await rename(temporary, fileOf(hash));
      return hash;
    },
    async get<Value>(hash: string) {
      if (!/^[0-9a-f]{64}$/.test(hash)) return undefined;
      try {
        return JSON.parse(await readFile(fileOf(hash), "utf8")) as Value;
      } catch (error) {
        if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
        throw error;
      }
    },
  };
}
