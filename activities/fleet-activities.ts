/** @file Activities of the fleet's worker: `decide` in a thread under a deadline, and the delivery of what jobs are to know. */

import { WorkflowNotFoundError, type Client, type WorkflowHandle } from "@temporalio/client";
import { log } from "@temporalio/activity";
import type { LeaseId } from "../domain/ids.ts";
import {
  fencedSignal,
  grantSignal,
  grantsSignal,
  JOB_TASK_QUEUE,
  pendingSignal,
  preemptSignal,
  SWEEP_WORKFLOW,
  sweepWorkflowId,
  type Grant,
  type SweepInput,
} from "../workflows/messages.ts";
import { audit, isInvalidArgument, recover } from "./audit.ts";
import { each } from "./each.ts";
import type {
  Delivery,
  EvictionOrder,
  FleetActivities,
  Loss,
  PendingNote,
} from "./control-contract.ts";
import type { Decider } from "./decider.ts";
import { foreseeStarts } from "./foresight.ts";

export interface FleetPorts {
  readonly client: Client;
  readonly decider: Decider;
}

export function createFleetActivities({ client, decider }: FleetPorts): FleetActivities {
  return {
    decide: (snapshot, nowMs) => decider.decide(snapshot, nowMs),
    async deliver({ grants, pending, losses = [], sweeps = [], evictions }) {
      const accepted: LeaseId[] = [];
      const gone: LeaseId[] = [];
      await each(parcelsOf(grants), async (parcel) => {
        const end = await offer(client, parcel);
        const ids = parcel.map(({ lease }) => lease.id);
        if (end === "accepted") accepted.push(...ids);
        if (end === "gone") gone.push(...ids);
      });
      await each(pending, (note) => tell(client, note));
      await each(losses, (loss) => tellLoss(client, loss));
      await each(sweeps, (order) => startSweep(client, order));
      return {
        accepted: accepted.sort(),
        gone: gone.sort(),
        ...(evictions !== undefined && { evictions: await sendEvictions(client, evictions) }),
      };
    },
    audit: (order) => audit(client, order),
    foresee: (order) => foreseeStarts(client, order),
    recover: (order) => recover(client, order),
  };
}

/** Of one parcel that arrives whole or not at all, and stays well below what a signal may carry. */
const MAX_PARCEL = 64;

/** A grant of a gang is alone; those of a job array go together, so that they cost its history one event. */
function parcelsOf(grants: readonly Delivery[]): readonly (readonly Delivery[])[] {
  const parcels: Delivery[][] = [];
  const open = new Map<string, Delivery[]>();
  for (const delivery of grants) {
    const { jobId, runId, slots } = delivery.lease;
    const key = `${jobId} ${runId}`;
    const former = slots === undefined ? undefined : open.get(key);
    if (former !== undefined && former.length < MAX_PARCEL) former.push(delivery);
    else {
      const parcel = [delivery];
      parcels.push(parcel);
      open.set(key, parcel);
    }
  }
  return parcels;
}

const grantOf = ({ lease, agents, reason, predictedGBs, bandwidth }: Delivery): Grant => ({
  seq: lease.seq,
  lease,
  agents,
  reason,
  ...(predictedGBs !== undefined && { predictedGBs }),
  ...(bandwidth !== undefined && { bandwidth }),
});

/** `failed`: nobody knows; the grants stay in the outbox and go again. */
async function offer(
  client: Client,
  parcel: readonly Delivery[],
): Promise<"accepted" | "gone" | "failed"> {
  const [first] = parcel;
  if (first === undefined) return "accepted";
  const { lease } = first;
  try {
    const job = handleOf(client, lease);
    if (lease.slots === undefined) await job.signal(grantSignal, grantOf(first));
    else await job.signal(grantsSignal, parcel.map(grantOf));
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

/** An order that could not be delivered is in neither list, and goes again. */
async function sendEvictions(
  client: Client,
  evictions: readonly EvictionOrder[],
): Promise<{ readonly sent: readonly LeaseId[]; readonly gone: readonly LeaseId[] }> {
  const sent: LeaseId[] = [];
  const gone: LeaseId[] = [];
  await each(evictions, async ({ order, ...job }) => {
    try {
      await handleOf(client, job).signal(preemptSignal, order);
      sent.push(order.lease);
    } catch (error) {
      if (error instanceof WorkflowNotFoundError || isInvalidArgument(error))
        gone.push(order.lease);
      else log.warn("a job could not be told to give up a lease", { ...job, error: String(error) });
    }
  });
  return { sent: sent.sort(), gone: gone.sort() };
}

/** A note that cannot be delivered is not worth another try: the fleet's `explain` has the same and more. */
async function tell(client: Client, note: PendingNote): Promise<void> {
  try {
    await handleOf(client, note).signal(pendingSignal, { seq: note.seq, reason: note.reason });
  } catch (error) {
    log.info("a job could not be told why it waits", { jobId: note.jobId, error: String(error) });
  }
}

/** Told again at the next audit, should it be lost. */
async function tellLoss(client: Client, loss: Loss): Promise<void> {
  const { lease, hosts } = loss;
  try {
    await handleOf(client, loss).signal(fencedSignal, { lease, hosts });
  } catch (error) {
    log.info("a job could not be told what it has lost", { lease, error: String(error) });
  }
}

/** One sweep a lease, however often it is asked for. */
async function startSweep(client: Client, order: SweepInput): Promise<void> {
  try {
    await client.workflow.start(SWEEP_WORKFLOW, {
      workflowId: sweepWorkflowId(order.fleet, order.lease),
      taskQueue: JOB_TASK_QUEUE,
      args: [order],
      workflowIdConflictPolicy: "USE_EXISTING",
      staticSummary: `what ${order.jobId} left behind`,
    });
  } catch (error) {
    log.warn("a sweep could not be started", { lease: order.lease, error: String(error) });
  }
}

const handleOf = (
  client: Client,
  { jobId, runId }: { readonly jobId: string; readonly runId: string },
): WorkflowHandle => client.workflow.getHandle(jobId, runId);
