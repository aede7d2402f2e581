/** @file Writes a support bundle: texts and the ends of logs in a new private folder, all without secrets. */

import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { hasErrorCode } from "../../lib/error-code.ts";
import { withoutSecrets } from "./redact.ts";

export interface BundleParts {
  readonly folder: string;
  /** By name in the bundle. */
  readonly texts: ReadonlyMap<string, string>;
  /** Files of which the end is taken, by name under `logs/`. */
  readonly logs: ReadonlyMap<string, string>;
  /** Values that must not be in it, whatever their form. */
  readonly secrets: readonly string[];
}

const LOG_END_BYTES = 256 * 1024;
const PRIVATE_DIR = 0o700;
const PRIVATE_FILE = 0o600;

/** The names of what was written; a log that is not there is left out. */
export function writeBundle({ folder, texts, logs, secrets }: BundleParts): readonly string[] {
  makeNew(folder);
  const written: string[] = [];
  const write = (name: string, text: string): void => {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true, mode: PRIVATE_DIR });
    writeFileSync(file, withoutSecrets(text, secrets), { mode: PRIVATE_FILE, flag: "wx" });
    written.push(name);
  };
  for (const [name, text] of texts) write(name, text);
  for (const [name, file] of logs) if (existsSync(file)) write(`logs/${name}`, endOf(file));
  return written;
}

/** In one step, so that nobody else of the machine can put a folder, or a link, of their own there first. */
function makeNew(folder: string): void {
  mkdirSync(dirname(folder), { recursive: true, mode: PRIVATE_DIR });
  try {
    mkdirSync(folder, { mode: PRIVATE_DIR });
  } catch (error) {
    if (!hasErrorCode(error, "EEXIST")) throw error;
    throw new OrbweaverError("BAD_INPUT", `${folder} is there already. Name a new folder.`);
  }
}

/** From the first whole line on. */
function endOf(file: string): string {
  const handle = openSync(file, "r");
  try {
    const { size } = fstatSync(handle);
    const from = Math.max(0, size - LOG_END_BYTES);
    const bytes = Buffer.alloc(size - from);
    const count = readSync(handle, bytes, 0, bytes.length, from);
    const text = bytes.subarray(0, count).toString("utf8");
    // A secret that is cut in two would not be known by its form.
    return from === 0 ? text : text.slice(text.indexOf("\n") + 1);
  } finally {
    closeSync(handle);
  }
}
