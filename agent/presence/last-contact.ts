/**
 * @file A host's last contact with the control plane, in `contact.json` of its folder: the agent writes it, every shim reads it.
 *
 * Contact is the time at which a call was sent that later succeeded: the control plane was there at that moment or afterwards. A disk without
 * room for a new file still takes new bytes in an old one; then the file is written in place. A reader that meets such a write may read
 * nonsense, so it looks twice before it acts.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { join } from "node:path";
import type { PresenceTerms } from "../../protocol/agent-contract.ts";
import { readJson, replaceJson } from "../folder/json-files.ts";
import type { Files } from "../ports/files.ts";

export interface Contact extends Pick<PresenceTerms, "silenceMs" | "fenceMs" | "onSilence"> {
  /** `uptimeMs` means something only within one start of the machine. */
  readonly bootId: string;
  /** By `Clock.sinceBootMs`. */
  readonly uptimeMs: number;
}

export const contactPath = (hostDir: string): string => join(hostDir, "contact.json");

/** Undefined when there is none, or when it was met half-written. */
export function readContact(files: Files, path: string): Contact | undefined {
  const found = readJson<Partial<Contact> | null>(files, path);
  if (found === null || found === undefined) return undefined;
  const { bootId, uptimeMs, silenceMs, fenceMs, onSilence } = found;
  const isWhole =
    typeof bootId === "string" &&
    typeof uptimeMs === "number" &&
    typeof silenceMs === "number" &&
    typeof fenceMs === "number" &&
    (onSilence === "fence" || onSilence === "hold");
  return isWhole ? { bootId, uptimeMs, silenceMs, fenceMs, onSilence } : undefined;
}

/** No contact is longer than this as JSON, whatever its numbers are: padding covers the earlier text. */
const WIDTH = 512;

/** Throws when nothing could be written. */
export function writeContact(files: Files, path: string, contact: Contact): void {
  try {
    replaceJson(files, path, contact);
  } catch {
    files.overwrite(path, JSON.stringify(contact).padEnd(WIDTH));
  }
}

/** For how long the host has been cut off when that is longer than its fence and the patience beyond it; else undefined. */
export function cutOffMs(
  contact: Contact,
  { nowMs, patienceMs }: { readonly nowMs: number; readonly patienceMs: number },
): number | undefined {
  const silentMs = nowMs - contact.uptimeMs;
  const isOver = contact.onSilence === "fence" && silentMs > contact.fenceMs + patienceMs;
  return isOver ? silentMs : undefined;
}
