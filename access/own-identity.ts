/**
 * @file The key by which a user signs jobs: an Ed25519 key pair in a file that this user alone can read, made on first use.
 *
 * `$XDG_CONFIG_HOME/orbweaver/identity.pem`, else `~/.config/orbweaver/identity.pem`; ORBWEAVER_IDENTITY names another file. Whoever can read
 * it is this user, as with a key of ssh. Users whose homes are shared between machines have one identity on all of them.
 */

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomUUID,
  type KeyObject,
} from "node:crypto";
import {
  fstatSync,
  openSync,
  closeSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir, userInfo } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { OrbweaverError } from "../domain/values/failure.ts";
import { PRIVATE_DIR, PRIVATE_FILE } from "./private-files.ts";
import { hasErrorCode } from "../lib/error-code.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface Identity {
  /** The user's name on this machine, for people to read; only the key proves anything. */
  readonly name: string;
  readonly file: string;
  readonly privateKey: KeyObject;
  /** `ed25519:` and the 32 bytes of the public key in base64url, as policy files name it. */
  readonly publicKey: string;
}

const PREFIX = "ed25519:";
const KEY_BYTES = 32;
const OTHERS = 0o077;

/** Reads the user's key, or makes it. Throws BAD_INPUT when it cannot be read or others may read it. */
export function ownIdentity(env: Environment = process.env): Identity {
  const file = identityFile(env);
  return { name: userName(), file, ...privateKeyAt(file) };
}

/** Reads the Ed25519 key in a file that this user alone can read, or makes it. Throws BAD_INPUT. */
export function privateKeyAt(file: string): Pick<Identity, "privateKey" | "publicKey"> {
  if (!isThere(file)) make(file);
  return read(file);
}

/**
 * An Ed25519 key ends with its 32 bytes in DER. Not by `jwk`: in Node 20 that holds the key's lock while it makes objects, and where the memory of the job that generated the key is given back
 * just then, the process waits for itself for ever (once or twice in 200,000 new keys).
 */
export function publicKeyText(key: KeyObject): string {
  const der = key.export({ type: "spki", format: "der" });
  return `${PREFIX}${der.subarray(-KEY_BYTES).toString("base64url")}`;
}

/** Undefined when the text names no key. */
export function parsePublicKey(text: string): KeyObject | undefined {
  if (!/^ed25519:[A-Za-z0-9_-]{43}$/.test(text)) return undefined;
  const jwk = { kty: "OKP", crv: "Ed25519", x: text.slice(PREFIX.length) };
  try {
    return createPublicKey({ key: jwk, format: "jwk" });
  } catch {
    return undefined;
  }
}

/** Whether it is there or not. */
export function identityFile(env: Environment): string {
  const given = env["ORBWEAVER_IDENTITY"];
  if (given !== undefined && given !== "") return given;
  return join(configFolder(env), "identity.pem");
}

/** The user's own folder of Orbweaver's settings. */
export function configFolder(env: Environment): string {
  const xdg = env["XDG_CONFIG_HOME"];
  const config =
    xdg !== undefined && isAbsolute(xdg) ? xdg : join(env["HOME"] ?? homedir(), ".config");
  return join(config, "orbweaver");
}

function isThere(file: string): boolean {
  try {
    closeSync(openSync(file, "r"));
    return true;
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return false;
    throw unusable(file, messageOf(error));
  }
}

/** Of several processes that make it at the same time, the first one's stays. */
function make(file: string): void {
  const { privateKey } = generateKeyPairSync("ed25519");
  const aside = `${file}.${randomUUID()}`;
  try {
    mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIR });
    writeFileSync(aside, privateKey.export({ type: "pkcs8", format: "pem" }), {
      mode: PRIVATE_FILE,
    });
    linkSync(aside, file);
  } catch (error) {
    if (!hasErrorCode(error, "EEXIST")) throw unusable(file, messageOf(error));
  } finally {
    rmSync(aside, { force: true });
  }
}

function read(file: string): Pick<Identity, "privateKey" | "publicKey"> {
  let pem: string;
  const handle = openSync(file, "r");
  try {
    const { uid, mode } = fstatSync(handle);
    if (uid !== process.getuid?.() || (mode & OTHERS) !== 0) {
      throw unusable(file, `it must belong to you and be readable by you alone; chmod 600 ${file}`);
    }
    pem = readFileSync(handle, "utf8");
  } finally {
    closeSync(handle);
  }
  if (lastRead?.pem === pem) return lastRead.keys;
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey(pem);
  } catch (error) {
    throw unusable(file, messageOf(error));
  }
  if (privateKey.asymmetricKeyType !== "ed25519") throw unusable(file, "it is no Ed25519 key");
  const keys = { privateKey, publicKey: publicKeyText(createPublicKey(privateKey)) };
  lastRead = { pem, keys };
  return keys;
}

/** To make a key of its text takes milliseconds, and who submits many jobs signs each with the same one. */
let lastRead:
  { readonly pem: string; readonly keys: Pick<Identity, "privateKey" | "publicKey"> } | undefined;

/** The name of who runs this process, as the system knows it. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // A uid without a line in the system's list of users.
    return `uid-${String(process.getuid?.() ?? "?")}`;
  }
}

const unusable = (file: string, why: string): OrbweaverError =>
  new OrbweaverError("BAD_INPUT", `the private key ${file} cannot be used: ${why}`);

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
