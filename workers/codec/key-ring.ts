/**
 * @file The encryption keys of payloads, from a file with one key a line: the first encrypts, all decrypt.
 *
 * A key is 32 bytes in base64; `bound:` before it says that what it encrypts is bound to its workflow. Its id is a digest of
 * both, so one id never means two keys and need not be written down. When a
 * requested key is missing, the ring reads its file again, so a new key is distributed by replacing the file, without a
 * restart. Before it encrypts it looks whether the file has changed (some microseconds): where keys bind, what a former one that does not bind has
 * encrypted is refused. A removed key is forgotten only at a restart.
 */

import { createHash, randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { KeysInUse } from "../../protocol/seal.ts";

export interface EncryptionKey {
  /** Twelve hexadecimal digits. */
  readonly id: string;
  readonly secret: Uint8Array;
  /** Whether it encrypts for one workflow alone. Such a key has another id than the same bytes without that. */
  readonly isBound: boolean;
}

export interface KeyRing extends KeysInUse {
  /** Source of the keys, for messages. */
  readonly file: string;
  /** The key that encrypts. */
  current(): EncryptionKey;
  /** The key with that id; undefined when the file has none. */
  find(id: string): EncryptionKey | undefined;
  /** Ids, the one that encrypts first. */
  ids(): readonly string[];
}

const KEY_BYTES = 32;
const ID_DIGITS = 12;
/** A flood of payloads under a foreign key is no reason to read the file for each. */
const LOOK_AGAIN_MS = 1_000;

const BOUND = "bound:";

function encryptionKey(secret: Uint8Array, isBound: boolean): EncryptionKey {
  const domain = isBound ? "orbweaver bound key id\0" : "orbweaver key id\0";
  const digest = createHash("sha256").update(domain).update(secret).digest("hex");
  return { id: digest.slice(0, ID_DIGITS), secret, isBound };
}

/** A line of a key file, of a key that binds. */
export const newKeyLine = (): string => `${BOUND}${randomBytes(KEY_BYTES).toString("base64")}`;

/** Reads the file; throws BAD_INPUT when it is not there, open to others, or no key file. */
export function openKeyRing(file: string, nowMs: () => number = () => performance.now()): KeyRing {
  let { keys, writtenAtMs } = readKeyFile(file);
  let seenAtMs = writtenAtMs;
  let lookedAtMs = nowMs();
  const known = (id: string): EncryptionKey | undefined => keys.find((key) => key.id === id);
  const lookAgain = (): void => {
    try {
      const { keys: found, writtenAtMs: atMs } = readKeyFile(file);
      seenAtMs = atMs;
      // A file that is written again as it was excuses nobody.
      if (found[0].id !== keys[0].id) writtenAtMs = atMs;
      const isNew = ({ id: other }: EncryptionKey): boolean =>
        !found.some((key) => key.id === other);
      keys = [...found, ...keys.filter(isNew)];
    } catch {
      // The file may be in the middle of its replacement; the present keys stay in use.
    }
  };
  return {
    file,
    current() {
      if (mtimeOf(file) !== seenAtMs) lookAgain();
      return keys[0];
    },
    isBinding: () => keys[0].isBound,
    sinceMs: () => writtenAtMs,
    ids: () => keys.map(({ id }) => id),
    find(id) {
      const key = known(id);
      if (key !== undefined || nowMs() - lookedAtMs < LOOK_AGAIN_MS) return key;
      lookedAtMs = nowMs();
      lookAgain();
      return known(id);
    },
  };
}

/** Undefined while the file cannot be seen. */
function mtimeOf(file: string): number | undefined {
  try {
    return statSync(file, { throwIfNoEntry: false })?.mtimeMs;
  } catch {
    return undefined;
  }
}

type Keys = readonly [EncryptionKey, ...EncryptionKey[]];

/** The keys of a file in its order. */
export const readKeys = (file: string): Keys => readKeyFile(file).keys;

function readKeyFile(file: string): { readonly keys: Keys; readonly writtenAtMs: number } {
  let text: string;
  let writtenAtMs: number;
  try {
    const { mode, mtimeMs } = statSync(file);
    checkMode(file, mode & 0o777);
    writtenAtMs = mtimeMs;
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof OrbweaverError) throw error;
    const found = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError(
      "BAD_INPUT",
      `the encryption keys cannot be read: ${found}. Correct ORBWEAVER_ENCRYPTION_KEYS or --encryption-keys, or create a file with \`orbweaver keys new FILE\`.`,
      { cause: error },
    );
  }
  return { keys: parseKeys(text, file), writtenAtMs };
}

/** Keys are secrets: the world may not read them, and only the owner may write. A group may read, as mounted secrets have it. */
function checkMode(file: string, mode: number): void {
  if ((mode & 0o027) === 0) return;
  throw new OrbweaverError(
    "BAD_INPUT",
    `the key file ${file} is accessible to other users (mode ${mode.toString(8).padStart(4, "0")}). Restrict it: chmod 600 ${file}`,
  );
}

export function parseKeys(text: string, file: string): Keys {
  const keys = text.split("\n").flatMap((line, at) => {
    const word = line.replace(/#.*/, "").trim();
    return word === "" ? [] : [keyOf(word, `${file}:${String(at + 1)}`)];
  });
  const [first, ...rest] = keys;
  if (first === undefined) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `the key file ${file} has no key. Create one with \`orbweaver keys new FILE\`.`,
    );
  }
  return [first, ...rest];
}

/** The line itself is never quoted: it may be a key with a slip in it. */
function keyOf(word: string, place: string): EncryptionKey {
  const isBound = word.startsWith(BOUND);
  const digits = isBound ? word.slice(BOUND.length) : word;
  const secret = Buffer.from(digits, "base64");
  if (secret.length === KEY_BYTES && /^[A-Za-z0-9+/]{43}=$/.test(digits))
    return encryptionKey(secret, isBound);
  throw new OrbweaverError(
    "BAD_INPUT",
    `${place} is not a key: a key is ${String(KEY_BYTES)} bytes in base64 (44 characters), after \`bound:\` or alone. Create one with \`openssl rand -base64 32\`.`,
  );
}
