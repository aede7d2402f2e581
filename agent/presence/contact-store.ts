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
import { contactPath, cutOffMs, readContact, writeContact, type Contact } from "./last-contact.ts";

export interface ContactStore {
  /** The host's last contact and the terms that it counts under; undefined before the first report. */
  of(host: HostId): Contact | undefined;
  /**
   * Whether an order that the server gave then may have been given up unheard: the host has been silent for its time, or has come back from such a silence within the
   * last minute, or has answered something since. Where it said that nothing runs, its GPUs may have been granted again; where it refused a run, the job may run elsewhere.
   */
  isInDoubt(host: HostId, givenAtMs: number): boolean;
  /** It tells what runs, or refuses a run, in answer to what the server gave then. */
  noteAnswer(askedAtMs: number): void;
  /** Whether it has been silent for its fence: what it would start may have been granted elsewhere. */
  isCutOff(host: HostId): boolean;
  /** New terms. They are no contact; on a host that has none yet the clock starts now. False when they could not be written down. */
  agree(terms: PresenceTerms): boolean;
  /** A call that was sent then has succeeded. False when that could not be written down. */
  note(sentAtMs: number): boolean;
}

/** Longer than a task may lie in the memory of an agent that was frozen, once that goes on. */
const JUST_BACK_MS = 60_000;

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
  /** When the last silence of each host ended. */
  const backAtMs = new Map<HostId, number>();
  /** Of the newest question what runs, or run that was refused, by the server's clock. An agent is given no order that was meant for the one before it. */
  let answeredFromMs = -Infinity;
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
    isCutOff: (host) => {
      const contact = contacts.get(host);
      if (contact === undefined) return false;
      return cutOffMs(contact, { nowMs: clock.sinceBootMs(), patienceMs: 0 }) !== undefined;
    },
    isInDoubt: (host, givenAtMs) => {
      const contact = contacts.get(host);
      const nowMs = clock.sinceBootMs();
      const isSilent = contact !== undefined && nowMs - contact.uptimeMs > contact.silenceMs;
      const isJustBack = nowMs - (backAtMs.get(host) ?? -Infinity) < JUST_BACK_MS;
      return isSilent || isJustBack || givenAtMs < answeredFromMs;
    },
    noteAnswer: (askedAtMs) => {
      answeredFromMs = Math.max(answeredFromMs, askedAtMs);
    },
    note: (sentAtMs) => {
      for (const [host, { uptimeMs, silenceMs }] of contacts)
        if (sentAtMs - uptimeMs > silenceMs) backAtMs.set(host, clock.sinceBootMs());
      return put((known) => known && { ...known, uptimeMs: Math.max(known.uptimeMs, sentAtMs) });
    },
  };
}
