/**
 * @file Lets nothing new start on a host that is out of contact: its fence could end the run while it has hardly begun.
 *
 * Grants follow the agent's report, and its first heartbeat may come after the first of them; so a start waits for that a
 * little, and is refused when none comes. What was started before is taken over in any case.
 */

import type { RunActivities, RunOrder } from "../agent-contract.ts";
import { abortablePause } from "./abortable-pause.ts";
import type { ContactBook } from "./contact-book.ts";
import { failure } from "./failures.ts";
import type { Clock } from "./monotonic-clock.ts";

export interface GatePorts {
  readonly contacts: ContactBook;
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
    return clock() - contact.uptimeMs - contact.silenceMs;
  };
  const untilMs = clock() + WAIT_MS;
  while (silentMs() > 0 && !signal.aborted) {
    if (clock() > untilMs) {
      throw failure(
        "HOST_REFUSED",
        `${host} does not start ${leaseId}: its agent has had no contact with the control plane for longer than its silence. See that the agent can reach the Temporal server.`,
      );
    }
    await abortablePause(LOOK_MS, signal);
  }
}
