/**
 * @file The keys by which a control plane proves its words to hosts: a private key that signs, and the public keys that are believed.
 *
 * In `$ORBWEAVER_KEYS`, else in `keys/` of the user's folder of settings: `fleet.pem` signs, `fleet.pub` lists public keys, the newest first.
 * Two are believed at a time, so that what was signed before a rotation is good until the next one. A host of another user or machine
 * needs `fleet.pub` alone. Both files are read again when they change, so a rotation needs no restart.
 */

import { randomUUID, type KeyObject } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { OrbweaverError } from "../domain/values/failure.ts";
import {
  configFolder,
  identityFile,
  ownIdentity,
  parsePublicKey,
  publicKeyText,
  privateKeyAt,
  type Environment,
} from "./own-identity.ts";
import { PRIVATE_DIR, PRIVATE_FILE } from "./private-files.ts";
import { hasErrorCode } from "../lib/error-code.ts";

const MOST_BELIEVED = 2;
const PUBLIC_FILE = 0o644;

export interface RoleKeyFiles {
  readonly privateFile: string;
  readonly publicFile: string;
}

export const fleetKeyFiles = (env: Environment = process.env): RoleKeyFiles =>
  keyFiles("fleet", env);

/** Of the submit service, which signs jobs in the name of those who ask it: `api.pem` and `api.pub` beside them. */
export const apiKeyFiles = (env: Environment = process.env): RoleKeyFiles => keyFiles("api", env);

/** Of a role that signs what workflows are told (`protocol/word-proof.ts`); the fleet's worker signs that with the key of its tickets. */
export const wordKeyFiles = (
  role: "fleet" | "jobs" | "agent",
  env: Environment = process.env,
): RoleKeyFiles => keyFiles(role, env);

function keyFiles(role: string, env: Environment): RoleKeyFiles {
  const given = env["ORBWEAVER_KEYS"];
  const folder = given !== undefined && given !== "" ? given : join(configFolder(env), "keys");
  return { privateFile: join(folder, `${role}.pem`), publicFile: join(folder, `${role}.pub`) };
}

/** Makes the keys that are missing, and answers with those that are believed. Throws BAD_INPUT when they cannot be read or made. */
export function makeRoleKeys(files: RoleKeyFiles = fleetKeyFiles()): readonly string[] {
  const { publicKey } = privateKeyAt(files.privateFile);
  const believed = publicKeysIn(files.publicFile);
  if (believed !== undefined) return believed;
  writePublic(files.publicFile, [publicKey]);
  return [publicKey];
}

/** The private key of this moment. */
export function signingKey(files: RoleKeyFiles = fleetKeyFiles()): () => KeyObject {
  const read = rereading(files.privateFile, () => privateKeyAt(files.privateFile).privateKey);
  return () => {
    const key = read();
    if (key === undefined) throw new OrbweaverError("BAD_INPUT", `${files.privateFile} is gone`);
    return key;
  };
}

/** The public keys of this moment; none where the file is missing. */
export function believedKeys(
  files: Pick<RoleKeyFiles, "publicFile"> = fleetKeyFiles(),
): () => readonly string[] {
  const read = rereading(files.publicFile, () => publicKeysIn(files.publicFile));
  return () => read() ?? [];
}

const listFile = (name: "operators" | "withdrawn", env: Environment): string =>
  join(dirname(keyFiles("fleet", env).publicFile), `${name}.pub`);

/** Who gives orders to fleets and to jobs of others: the user of this process, and whom `operators.pub` lists. At this moment. */
export function operatorKeys(env: Environment = process.env): () => readonly string[] {
  const listed = believedKeys({ publicFile: listFile("operators", env) });
  const read = rereading(identityFile(env), () => ownIdentity(env).publicKey);
  // An identity that cannot be read signs nothing, and must not keep a fleet from judging what others have signed.
  const own = (): string | undefined => {
    try {
      return read();
    } catch (error) {
      if (error instanceof OrbweaverError) return undefined;
      throw error;
    }
  };
  return () => {
    const key = own();
    return key === undefined ? listed() : [key, ...listed()];
  };
}

/**
 * Whose orders nobody of the control plane obeys, not even about jobs that they have signed. At this moment; of a list that cannot be read, as it was before; undefined where it never could
 * be.
 */
export function withdrawnKeys(env: Environment = process.env): () => readonly string[] | undefined {
  const read = believedKeys({ publicFile: listFile("withdrawn", env) });
  let last: readonly string[] | undefined;
  return () => {
    try {
      last = read();
    } catch (error) {
      if (!(error instanceof OrbweaverError)) throw error;
    }
    return last;
  };
}

interface ListChange {
  readonly add?: string;
  readonly remove?: string;
}

interface KeyList {
  readonly file: string;
  readonly keys: readonly string[];
}

/** Changes the list beside the own key. Throws BAD_INPUT for what is no key, NOT_FOUND for one that is to go and is not listed. */
export const changeOperators = (change: ListChange, env: Environment = process.env): KeyList =>
  changeList(listFile("operators", env), change);

/** The same of withdrawn keys. The own identity is none: its user would give no order any more. */
export function changeWithdrawn(change: ListChange, env: Environment = process.env): KeyList {
  if (change.add !== undefined && inOneSpelling(change.add) === ownIdentity(env).publicKey)
    throw new OrbweaverError(
      "BAD_INPUT",
      `${change.add} is your own key. Move ${identityFile(env)} away first: another is made then`,
    );
  return changeList(listFile("withdrawn", env), change);
}

/** The last character of a key has bits to spare. Undefined for what is no key. */
function inOneSpelling(text: string): string | undefined {
  const key = parsePublicKey(text);
  return key && publicKeyText(key);
}

function changeList(file: string, { add: given, remove }: ListChange): KeyList {
  const before = publicKeysIn(file) ?? [];
  const add = given === undefined ? undefined : inOneSpelling(given);
  if (given !== undefined && add === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `${given} is no key; \`orbweaver keys identity\` prints a user's key`,
    );
  if (remove !== undefined && !before.includes(remove))
    throw new OrbweaverError("NOT_FOUND", `${file} does not list ${remove}`);
  const added = add === undefined || before.includes(add) ? before : [...before, add];
  const keys = added.filter((key) => key !== remove);
  if (keys.length !== before.length || add !== undefined) writePublic(file, keys);
  return { file, keys };
}

/** A new key signs from now on; the former one is believed until the next rotation. */
export function rotateRoleKeys(files: RoleKeyFiles = fleetKeyFiles()): readonly string[] {
  const believed = makeRoleKeys(files);
  const aside = `${files.privateFile}.${randomUUID()}`;
  const { publicKey } = privateKeyAt(aside);
  const now = [publicKey, ...believed].slice(0, MOST_BELIEVED);
  // Believed before it signs: no word of it is refused.
  writePublic(files.publicFile, now);
  renameSync(aside, files.privateFile);
  return now;
}

/** The key is believed no more. One that signs is replaced first. Throws NOT_FOUND when it is not among those that are believed. */
export function revokeRoleKey(
  key: string,
  files: RoleKeyFiles = fleetKeyFiles(),
): readonly string[] {
  const believed = makeRoleKeys(files);
  if (!believed.includes(key))
    throw new OrbweaverError("NOT_FOUND", `${files.publicFile} does not list ${key}`);
  const isSigning = privateKeyAt(files.privateFile).publicKey === key;
  const now = (isSigning ? rotateRoleKeys(files) : believed).filter((each) => each !== key);
  writePublic(files.publicFile, now);
  return now;
}

function publicKeysIn(file: string): readonly string[] | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return undefined;
    throw new OrbweaverError("BAD_INPUT", `${file} cannot be read: ${String(error)}`);
  }
  const lines = text.split("\n").map((line) => line.trim());
  const keys = lines.filter((line) => line !== "" && !line.startsWith("#"));
  const wrong = keys.find((key) => parsePublicKey(key) === undefined);
  if (wrong !== undefined) throw new OrbweaverError("BAD_INPUT", `${file}: ${wrong} is no key`);
  return keys;
}

function writePublic(file: string, keys: readonly string[]): void {
  mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIR });
  const aside = `${file}.${randomUUID()}`;
  writeFileSync(aside, `${keys.join("\n")}\n`, { mode: PRIVATE_FILE });
  chmodSync(aside, PUBLIC_FILE);
  renameSync(aside, file);
}

/** Reads again when the file is another one or was written; undefined while it is missing. */
function rereading<T>(file: string, read: () => T): () => T | undefined {
  let known: { readonly stamp: string; readonly value: T } | undefined;
  return () => {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found === undefined) return undefined;
    const stamp = `${String(found.ino)} ${String(found.mtimeMs)} ${String(found.size)}`;
    if (known?.stamp !== stamp) known = { stamp, value: read() };
    return known.value;
  };
}
