/**
 * @file Stops everything that runs on a host which has had no contact with the control plane for as long as its fence.
 *
 * By then the fleet may grant the GPUs again, so nothing may be left that could still run: TERM with a short grace, KILL, until
 * nothing is. The look is by a clock that counts the machine's sleep, and comes often; whoever notes a contact looks first, so a
 * contact that comes too late saves nothing. `onSilence: hold` stops nothing.
 * Cost: one look at a clock each time; processes are looked for only while a host is cut off.
 */

import type { HostId } from "../../domain/ids.ts";
import type { AgentHost } from "./agent-host.ts";
import { cutOffMs, type Contact } from "./contact.ts";
import type { ContactBook } from "./contact-book.ts";
import type { LocalRun } from "./local-run.ts";
import type { Clock } from "./monotonic-clock.ts";
import { unfinishedRuns } from "./presence-report.ts";
import { killAll, pause } from "./process-end.ts";
import { stopRun } from "./run-end.ts";

export interface FencePorts {
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly contacts: ContactBook;
  readonly clock: Clock;
  readonly onNote: (note: string) => void;
}

export interface Fence {
  /** Begins to stop what has to be stopped now. */
  look(): void;
}

/** Of `silenceMs`, which is what lies between our fence and the fleet's: TERM may take so much of it. */
const GRACE_SHARE = 1 / 4;
const LOOK_SHARE = 1 / 10;
const LOOK_MS = { least: 100, most: 1_000 } as const;

export function createFence({ hosts, contacts, clock, onNote }: FencePorts): Fence {
  const ending = new WeakSet<LocalRun>();
  return {
    look: () => {
      for (const host of hosts.values()) {
        const contact = contacts.of(host.id);
        const silentMs =
          contact && host.open.size > 0
            ? cutOffMs(contact, { nowMs: clock(), patienceMs: 0 })
            : undefined;
        if (contact === undefined || silentMs === undefined) continue;
        const runs = unfinishedRuns(host).filter((run) => !ending.has(run));
        if (runs.length === 0) continue;
        onNote(
          `${host.id} has had no contact with the control plane for ${Math.round(silentMs / 1_000)} s; its fence is ${contact.fenceMs / 1_000} s. Stopping ${runs.map((run) => run.leaseId).join(", ")}.`,
        );
        for (const run of runs) {
          ending.add(run);
          endRun(host, run, { silentMs, graceMs: contact.silenceMs * GRACE_SHARE }).catch(
            (error: unknown) => {
              // Say, a full disk: the next look tries again.
              ending.delete(run);
              onNote(`${run.leaseId} on ${host.id} could not be stopped: ${String(error)}`);
            },
          );
        }
      }
    },
  };
}

/** Looks until the agent ends. */
export function watchFence(
  fence: Fence,
  { hosts, contacts }: Pick<FencePorts, "hosts" | "contacts">,
  closing: AbortSignal,
): void {
  const lookMs = (): number =>
    Math.min(...[...hosts.keys()].map((host) => lookEveryMs(contacts.of(host))), LOOK_MS.most);
  let timer: NodeJS.Timeout;
  const again = (): void => {
    fence.look();
    timer = setTimeout(again, lookMs());
    timer.unref();
  };
  again();
  closing.addEventListener("abort", () => clearTimeout(timer), { once: true });
}

const lookEveryMs = (contact: Contact | undefined): number =>
  contact === undefined ? LOOK_MS.most : Math.max(LOOK_MS.least, contact.silenceMs * LOOK_SHARE);

async function endRun(
  host: AgentHost,
  run: LocalRun,
  { silentMs, graceMs }: { readonly silentMs: number; readonly graceMs: number },
): Promise<void> {
  const reason = `${host.id} was cut off from the control plane`;
  const stopping = stopRun(host, run, {
    reason,
    isCheckpointFirst: false,
    cutOffMs: Math.round(silentMs),
    graceMs,
  });
  // A stop that was under way before may grant its processes more than there is.
  await Promise.race([stopping.catch(() => undefined), pause(graceMs)]);
  await killAll(run);
  await stopping;
}
