/**
 * @file `access:` of a fleet file as it is now: read again when the file changes, and kept as it was when the file becomes wrong.
 */

import { statSync } from "node:fs";
import { userName } from "../access/own-identity.ts";
import { readOnce, type FileOnce } from "../access/owned-file.ts";
import { keysInFile } from "../access/token.ts";
import type { Access } from "../domain/fleet/access-schema.ts";
import { OrbweaverError } from "../domain/values/failure.ts";

export interface AccessFile {
  readonly file: string;
  /** Reads the `access:` of its text; throws BAD_INPUT when it is wrong. */
  readonly readAccess: (text: string) => Access | undefined;
  readonly say: (text: string) => void;
}

export interface LiveAccess {
  /** What was read last without a problem. */
  readonly access: () => Access;
  /** Reads again when the file is another one or was written; whether that was so. */
  readonly isChanged: () => boolean;
}

export function liveAccess({ file, readAccess, say }: AccessFile): LiveAccess {
  const stampOf = (): string => {
    const found = statSync(file, { throwIfNoEntry: false });
    return found === undefined
      ? ""
      : `${String(found.ino)} ${String(found.mtimeMs)} ${String(found.size)}`;
  };
  const read = (): Access => {
    const { text, isOwned } = readFile(file);
    const access = readAccess(text) ?? {};
    if (Object.keys(access).length > 0 && !isOwned) throw writable(file);
    (access.issuers ?? []).forEach(keysInFile);
    refuseOwnName(access);
    return access;
  };
  let stamp = stampOf();
  let access = read();
  return {
    access: () => access,
    isChanged() {
      const now = stampOf();
      if (now === stamp) return false;
      stamp = now;
      try {
        access = read();
        say(`${file}: read again`);
        return true;
      } catch (error) {
        say(`${file} changed, and what was read before stays in force: ${String(error)}`);
        return false;
      }
    },
  };
}

function readFile(file: string): FileOnce {
  try {
    return readOnce(file);
  } catch (error) {
    throw new OrbweaverError("BAD_INPUT", `the fleet file cannot be read: ${String(error)}`, {
      cause: error,
    });
  }
}

/** Who may write the file may give itself every role. */
const writable = (file: string): OrbweaverError =>
  new OrbweaverError(
    "BAD_INPUT",
    `${file} says who may do what (access), so it must belong to root or to the user of the service, and nobody else may write it: chmod go-w ${file}`,
  );

/** Jobs of the owner are the owner's by name. */
function refuseOwnName({ principals = [] }: Access): void {
  const own = userName();
  if (!principals.some(({ name, user }) => name === own && user !== own)) return;
  throw new OrbweaverError(
    "BAD_INPUT",
    `access.principals gives the name ${own} to another user than ${own}, who runs the service. Give it another name, or user: ${own}.`,
  );
}
