/**
 * @file Sends entries to the fleet's inbox; the entries of all jobs of one worker travel together.
 *
 * One batch of at most 256 KiB is in flight per fleet; when it is acknowledged, the next one leaves with every entry that has
 * arrived meanwhile. So hundreds of requests become one signal, and a single request leaves at once. A batch may arrive twice;
 * the fleet treats entries idempotently.
 */

import { log } from "@temporalio/activity";
import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { setTimeout as sleep } from "node:timers/promises";
import type { InboxEntry } from "../domain/lease/inbox-entry.ts";
import { inboxSignal } from "../protocol/messages.ts";
import type { NotifyResult } from "../protocol/control-contract.ts";
import { reviveFleet } from "./revive-fleet.ts";

const MAX_BATCH_BYTES = 256 * 1024;
const MAX_BATCH_ENTRIES = 500;
/** Between two batches: a fleet whose workflow task is open buffers at most 100 signals. */
const MIN_GAP_MS = 25;

export interface Inbox {
  /** Resolves when the fleet has the entry or does not exist; rejects when the result is unknown, and the caller repeats it. */
  tell(fleetWorkflowId: string, entry: InboxEntry): Promise<NotifyResult>;
}

interface Waiting {
  readonly entry: InboxEntry;
  readonly bytes: number;
  readonly resolve: (notified: NotifyResult) => void;
  readonly reject: (error: unknown) => void;
}

export function createInbox(client: Client): Inbox {
  const queues = new Map<string, Waiting[]>();
  const busy = new Set<string>();

  async function pump(fleetWorkflowId: string): Promise<void> {
    if (busy.has(fleetWorkflowId)) return;
    busy.add(fleetWorkflowId);
    const queue = queues.get(fleetWorkflowId) ?? [];
    while (queue.length > 0) {
      const batch = takeBatch(queue);
      const sentAtMs = performance.now();
      try {
        await client.workflow.getHandle(fleetWorkflowId).signal(
          inboxSignal,
          batch.map(({ entry }) => entry),
        );
        for (const { resolve } of batch) resolve({ kind: "delivered" });
      } catch (error) {
        if (!(error instanceof WorkflowNotFoundError)) {
          for (const { reject } of batch) reject(error);
        } else if (await isThereAgain(fleetWorkflowId)) {
          queue.unshift(...batch);
        } else {
          const message = `no open workflow ${fleetWorkflowId}`;
          for (const { resolve } of batch) resolve({ kind: "no-fleet", message });
        }
      }
      const restMs = MIN_GAP_MS - (performance.now() - sentAtMs);
      if (queue.length > 0 && restMs > 0) await sleep(restMs);
    }
    busy.delete(fleetWorkflowId);
    queues.delete(fleetWorkflowId);
  }

  /** A closed fleet is started again by the first sender of an entry. */
  async function isThereAgain(fleetWorkflowId: string): Promise<boolean> {
    try {
      return (await reviveFleet(client, fleetWorkflowId)) !== "never-was";
    } catch (error) {
      log.warn("a closed fleet could not be started again", { error: String(error) });
      return false;
    }
  }

  return {
    tell: (fleetWorkflowId, entry) =>
      new Promise((resolve, reject) => {
        const queue = queues.get(fleetWorkflowId) ?? [];
        queues.set(fleetWorkflowId, queue);
        queue.push({ entry, bytes: Buffer.byteLength(JSON.stringify(entry)), resolve, reject });
        // The entries of one turn of the event loop leave together.
        setImmediate(() => void pump(fleetWorkflowId));
      }),
  };
}

/** Takes the longest prefix that fits; at least one entry, whatever its size. */
function takeBatch(queue: Waiting[]): Waiting[] {
  let bytes = 0;
  let count = 0;
  for (const { bytes: size } of queue) {
    if (count > 0 && (bytes + size > MAX_BATCH_BYTES || count >= MAX_BATCH_ENTRIES)) break;
    bytes += size;
    count += 1;
  }
  return queue.splice(0, count);
}
