/**
 * @file The agent's contact with the control plane, kept for each of its hosts and on their disks.
 *
 * A contact that an earlier agent wrote during the same start of the machine still counts: restarting an agent makes no contact. After a
 * restart of the machine the terms hold and the clock starts anew, because no earlier process runs any more. A contact that could not be
 * written down does not count: the shims read the file.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { PresenceTerms } from "../../protocol/agent-contract.ts";
import type { System } from "../ports/system.ts";
import { contactPath, readContact, writeContact, type Contact } from "./last-contact.ts";

export interface ContactStore {
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

export function openContactStore(
  hosts: readonly ServedFolder[],
  { files, processes, clock }: System,
): ContactStore {
  const bootId = processes.bootId();
  const contacts = new Map<HostId, Contact>();
  for (const { id, layout } of hosts) {
    const stored = readContact(files, contactPath(layout.dir));
    if (stored === undefined) continue;
    const nowMs = clock.sinceBootMs();
    const uptimeMs = stored.bootId === bootId ? Math.min(stored.uptimeMs, nowMs) : nowMs;
    contacts.set(id, { ...stored, bootId, uptimeMs });
  }
  const put = (next: (known: Contact | undefined) => Contact | undefined): boolean => {
    let isWritten = true;
    for (const { id, layout } of hosts) {
      const contact = next(contacts.get(id));
      if (contact === undefined) continue;
      try {
        writeContact(files, contactPath(layout.dir), contact);
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
        bootId,
        uptimeMs: known?.uptimeMs ?? clock.sinceBootMs(),
        silenceMs,
        fenceMs,
        onSilence,
      })),
    note: (sentAtMs) =>
      put((known) => known && { ...known, uptimeMs: Math.max(known.uptimeMs, sentAtMs) }),
  };
}
