/** @file The last contact of a host on its disk, and the supervisors' look at it: the agent may be dead. They remember what they read, should the disk be lost. */

import type { Kernel } from "../kernel/kernel.ts";
import type { AgentRules, HostClock } from "./agent-rules.ts";
import type { DiskWrites } from "./disk-writes.ts";
import type { Contact } from "./disk.ts";
import type { Silenced } from "./witness.ts";

interface Watched {
  contact: Contact | undefined;
  backAtMs: number;
  readonly clock: () => HostClock;
  readonly disk: Pick<DiskWrites, "state">;
}

/** Notes a contact; `end` ends all that runs on a host that was cut off for its fence. */
export function createFenceWatch(
  kernel: Kernel,
  { isCutOff }: Pick<AgentRules, "isCutOff">,
  { host, end }: { readonly host: () => Watched; readonly end: (silence: Silenced) => void },
): (contact: Contact) => void {
  let contactAtMs = 0;
  /** What the supervisors have read last. */
  let read: Contact | undefined;

  function look(noted: Contact): void {
    const { contact = read ?? noted, clock } = host();
    const now = clock();
    if (contact.bootId !== now.bootId) return;
    if (isCutOff(contact, now))
      return end({ forMs: kernel.nowMs() - contactAtMs, fenceMs: contact.terms.fenceMs });
    // A clock that is slow says so later; a later contact has a look of its own.
    if (contact === noted) kernel.after(contact.terms.silenceMs / 4, () => look(noted));
  }

  return (contact) => {
    const at = host();
    const { sinceBootMs } = at.clock();
    const { atSinceBootMs = contact.atSinceBootMs } = at.contact ?? {};
    if (contact.atSinceBootMs - atSinceBootMs > contact.terms.silenceMs) at.backAtMs = sinceBootMs;
    // A contact that could not be written down does not count; an old file takes new bytes also on a full disk.
    if (at.disk.state() === "read-only") return;
    at.contact = contact;
    read = contact;
    contactAtMs = kernel.nowMs() - (sinceBootMs - contact.atSinceBootMs);
    const dueMs = contact.atSinceBootMs + contact.terms.fenceMs - sinceBootMs;
    kernel.after(Math.max(0, dueMs) + contact.terms.silenceMs / 4, () => look(contact));
  };
}
