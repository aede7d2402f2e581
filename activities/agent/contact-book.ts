/**
 * @file The agent's contact with the control plane, kept for each of its hosts and on their disks.
 *
 * What an earlier agent wrote during the same start of the machine goes on counting: restarting an agent is no contact. After a
 * restart of the machine the terms hold and the clock starts anew, because nothing of before runs any more. Contact that could not
 * be written down does not count: the shims go by the file.
 */

import type { HostId } from "../../domain/ids.ts";
import type { PresenceTerms } from "../agent-contract.ts";
import { contactPath, readContact, writeContact, type Contact } from "./contact.ts";
import type { Clock } from "./monotonic-clock.ts";
import { bootId } from "./process-identity.ts";

export interface ContactBook {
  /** The host's last contact and the terms that it counts under; undefined before the first report. */
  of(host: HostId): Contact | undefined;
  /** New terms. They are no contact; on a host that has none yet the clock starts now. False when they could not be written down. */
  agree(terms: PresenceTerms): boolean;
  /** A call that was sent then has succeeded. False when that could not be written down. */
  note(sentAtMs: number): boolean;
}

export interface ServedFolder {
  readonly id: HostId;
  readonly layout: { readonly dir: string };
}

export function openContactBook(hosts: readonly ServedFolder[], clock: Clock): ContactBook {
  const contacts = new Map<HostId, Contact>();
  for (const { id, layout } of hosts) {
    const known = inherited(readContact(contactPath(layout.dir)), clock());
    if (known !== undefined) contacts.set(id, known);
  }
  const put = (next: (known: Contact | undefined) => Contact | undefined): boolean => {
    let isWritten = true;
    for (const { id, layout } of hosts) {
      const contact = next(contacts.get(id));
      if (contact === undefined) continue;
      try {
        writeContact(contactPath(layout.dir), contact);
        contacts.set(id, contact);
      } catch {
        isWritten = false;
      }
    }
    return isWritten;
  };
  return {
    of: (host) => contacts.get(host),
    agree: ({ silenceMs, fenceMs, onSilence }) =>
      put((known) => ({
        bootId: bootId(),
        uptimeMs: known?.uptimeMs ?? clock(),
        silenceMs,
        fenceMs,
        onSilence,
      })),
    note: (sentAtMs) =>
      put((known) => known && { ...known, uptimeMs: Math.max(known.uptimeMs, sentAtMs) }),
  };
}

function inherited(stored: Contact | undefined, nowMs: number): Contact | undefined {
  if (stored === undefined) return undefined;
  if (stored.bootId !== bootId()) return { ...stored, bootId: bootId(), uptimeMs: nowMs };
  return { ...stored, uptimeMs: Math.min(stored.uptimeMs, nowMs) };
}
