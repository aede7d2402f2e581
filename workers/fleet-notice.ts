/**
 * @file What an agent tells its fleet by itself: that it is there, that it ends, and that a host has become free unasked.
 *
 * Hello and `vacated` are said until the fleet has them, with a growing pause: it may not have been started yet. A farewell is
 * tried once: what is not heard of an agent shows soon enough.
 */

import { abortablePause } from "../activities/agent/abortable-pause.ts";
import type { Client } from "@temporalio/client";
import type { InboxEntry } from "../scheduling/ledger.ts";
import { fleetWorkflowId, inboxSignal } from "../workflows/messages.ts";

export type TellFleet = (entry: InboxEntry) => Promise<void>;

const PAUSE_MS = 250;
const PAUSE_MAX_MS = 10_000;
const FAREWELL_MS = 3_000;

/** Signals the fleet's workflow. */
export const signalFleet =
  (client: Client, fleet: string): TellFleet =>
  (entry) =>
    client.workflow.getHandle(fleetWorkflowId(fleet)).signal(inboxSignal, [entry]);

/** Whether the fleet has the entry; false when the agent ended before. */
export async function tellUntilHeard(
  tellFleet: TellFleet,
  entry: InboxEntry,
  closing: AbortSignal,
): Promise<boolean> {
  for (let pauseMs = PAUSE_MS; !closing.aborted; pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS)) {
    try {
      await tellFleet(entry);
      return true;
    } catch {
      await abortablePause(pauseMs, closing);
    }
  }
  return false;
}

/** Never fails and never takes long: the agent ends in any case. */
export async function tellOnce(tellFleet: TellFleet, entry: InboxEntry): Promise<void> {
  const timeout = new AbortController();
  try {
    const late = abortablePause(FAREWELL_MS, timeout.signal);
    await Promise.race([tellFleet(entry), late]);
  } catch {
    // Silence is what the fleet has to live with anyway.
  } finally {
    timeout.abort();
  }
}
