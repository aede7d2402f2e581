/**
 * @file Starts no new run on a host that is out of contact: its fence could end the run soon after its start.
 *
 * Grants follow the agent's report, and the first heartbeat may come after the first grant, so a start waits a little for a contact and is
 * refused when none comes. A launch that is on disk already is taken over in any case.
 */

import type { RunActivities, RunOrder } from "../../protocol/agent-contract.ts";
import type { Clock } from "../ports/clock.ts";
import { failure } from "../system/failures.ts";
import type { ContactStore } from "./contact-store.ts";

export interface GatePorts {
  readonly contacts: ContactStore;
  readonly clock: Clock;
  /** Whether a launch of the order is on this host's disk already. */
  readonly isKnown: (order: RunOrder) => boolean;
  readonly cancelled: () => AbortSignal;
}

/** Less than the heartbeat timeout of `run`. */
const WAIT_MS = 20_000;
const LOOK_MS = 50;

export function onlyInContact({ run }: RunActivities, ports: GatePorts): RunActivities {
  return {
    run: async (order) => {
      if (!ports.isKnown(order)) await untilContact(order, ports);
      return run(order);
    },
  };
}

async function untilContact(
  { host, leaseId }: RunOrder,
  { contacts, clock, cancelled }: GatePorts,
): Promise<void> {
  const signal = cancelled();
  const silentMs = (): number => {
    const contact = contacts.of(host);
    if (contact === undefined || contact.onSilence === "hold") return -Infinity;
    return clock.sinceBootMs() - contact.uptimeMs - contact.silenceMs;
  };
  const untilMs = clock.sinceBootMs() + WAIT_MS;
  while (silentMs() > 0 && !signal.aborted) {
    if (clock.sinceBootMs() > untilMs) {
      throw failure(
        "HOST_REFUSED",
        `${host} does not start ${leaseId}: its agent has had no contact with the control plane for longer than its silence. Check that the agent can reach the Temporal server.`,
      );
    }
    await clock.pause(LOOK_MS, signal);
  }
}
