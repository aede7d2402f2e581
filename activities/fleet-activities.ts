/** @file Activities of the fleet's worker: `decide` in a thread under a deadline, and the delivery of grants. */

import {
  isGrpcServiceError,
  WorkflowNotFoundError,
  type Client,
  type WorkflowHandle,
} from "@temporalio/client";
import { log } from "@temporalio/activity";
import type { LeaseId } from "../domain/ids.ts";
import { grantSignal, pendingSignal } from "../workflows/messages.ts";
import type { Delivery, FleetActivities, PendingNote } from "./control-contract.ts";
import type { Decider } from "./decider.ts";

/** Signals on their way at once. */
const CONCURRENCY = 32;

export interface FleetPorts {
  readonly client: Client;
  readonly decider: Decider;
}

export function createFleetActivities({ client, decider }: FleetPorts): FleetActivities {
  return {
    decide: (snapshot, nowMs) => decider.decide(snapshot, nowMs),
    async deliver({ grants, pending }) {
      const accepted: LeaseId[] = [];
      const gone: LeaseId[] = [];
      await each(grants, async (delivery) => {
        const end = await offer(client, delivery);
        if (end === "accepted") accepted.push(delivery.lease.id);
        if (end === "gone") gone.push(delivery.lease.id);
      });
      await each(pending, (note) => tell(client, note));
      return { accepted: accepted.sort(), gone: gone.sort() };
    },
  };
}

/** `failed`: nobody knows; the grant stays in the outbox and goes again. */
async function offer(client: Client, delivery: Delivery): Promise<"accepted" | "gone" | "failed"> {
  const { lease, agents, reason, predictedGBs } = delivery;
  try {
    await handleOf(client, lease).signal(grantSignal, {
      seq: lease.seq,
      lease,
      agents,
      reason,
      ...(predictedGBs !== undefined && { predictedGBs }),
    });
    return "accepted";
  } catch (error) {
    // A job that cannot even be named (junk in the request) is as gone as one that is closed.
    if (error instanceof WorkflowNotFoundError || isInvalidArgument(error)) return "gone";
    log.warn("a grant could not be delivered", {
      lease: lease.id,
      jobId: lease.jobId,
      error: String(error),
    });
    return "failed";
  }
}

const INVALID_ARGUMENT = 3;

function isInvalidArgument(error: unknown): boolean {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return isGrpcServiceError(cause) && Number(cause.code) === INVALID_ARGUMENT;
}

/** A note that cannot be delivered is not worth another try: the fleet's `explain` has the same and more. */
async function tell(client: Client, note: PendingNote): Promise<void> {
  try {
    await handleOf(client, note).signal(pendingSignal, { seq: note.seq, reason: note.reason });
  } catch (error) {
    log.info("a job could not be told why it waits", { jobId: note.jobId, error: String(error) });
  }
}

const handleOf = (
  client: Client,
  { jobId, runId }: { readonly jobId: string; readonly runId: string },
): WorkflowHandle => client.workflow.getHandle(jobId, runId);

async function each<Item>(
  items: readonly Item[],
  run: (item: Item) => Promise<void>,
): Promise<void> {
  const queue = [...items];
  const lanes = Array.from({ length: Math.min(CONCURRENCY, queue.length) }, async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await run(item);
  });
  await Promise.all(lanes);
}
