/**
 * @file Stops everything that runs on a host which has had no contact with the control plane for as long as its fence.
 *
 * By then the fleet may grant the GPUs again, so no process may be left: TERM with a short grace, then KILL until none is. Looks are frequent
 * and go by a clock that counts the machine's sleep. Before a contact is noted there is one more look, so a contact that comes too late saves
 * no run. `onSilence: hold` stops nothing.
 * Cost: one look at a clock each time; processes are looked for only while a host is cut off.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { AgentHost } from "../runs/agent-host.ts";
import { cutOffMs, type Contact } from "./last-contact.ts";
import type { ContactStore } from "./contact-store.ts";
import type { LocalRun } from "../runs/local-run.ts";
import type { Clock } from "../ports/clock.ts";
import { unfinishedRuns } from "./presence-report.ts";
import { killAll } from "../runs/process-end.ts";
import { stopRun } from "../runs/run-end.ts";

export interface FencePorts {
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly contacts: ContactStore;
  readonly clock: Clock;
  readonly onNote: (note: string) => void;
}

export interface Fence {
  /** Begins to stop the runs of hosts that are cut off now. */
  look(): void;
}

/** Of `silenceMs`, the time between our fence and the fleet's: the share that TERM may take. */
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
            ? cutOffMs(contact, { nowMs: clock.sinceBootMs(), patienceMs: 0 })
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
  { hosts, contacts, clock }: Pick<FencePorts, "hosts" | "contacts" | "clock">,
  closing: AbortSignal,
): void {
  const lookMs = (): number =>
    Math.min(...[...hosts.keys()].map((host) => lookEveryMs(contacts.of(host))), LOOK_MS.most);
  let cancel = (): void => undefined;
  const again = (): void => {
    fence.look();
    cancel = clock.after(lookMs(), again, { isIdle: true });
  };
  again();
  closing.addEventListener("abort", () => cancel(), { once: true });
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
  await Promise.race([stopping.catch(() => undefined), host.system.clock.pause(graceMs)]);
  await killAll(run);
  await stopping;
}
