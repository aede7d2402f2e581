/** @file A lease that a job array holds: what it runs now, where its tasks are found, and the order that stops some of them. */

import { proxyActivities } from "@temporalio/workflow";
import type { OrderActivities } from "../activities/agent-contract.ts";
import type { HostId } from "../domain/ids.ts";
import { formatTaskRanges } from "../domain/task-ranges.ts";
import type { ArrayJob } from "./array-view.ts";
import type { Grant, PreemptOrder } from "./messages.ts";
import type { TaskPlace } from "./task-table.ts";

export interface HeldLease {
  /** With the newest addresses of its hosts' agents. */
  grant: Grant;
  /** Tasks that it may run at a time. */
  readonly slots: number;
  /** Hosts that the fleet has given up. */
  readonly fenced: Set<HostId>;
  /** It is to be given up: its tasks go back to the line. */
  preempt?: PreemptOrder;
  /** Of its present or last batch. */
  batchSeq: number;
  /** Of its present batch. */
  tasks: readonly number[];
}

export const hostsOf = ({ grant }: HeldLease): readonly HostId[] =>
  grant.lease.gpus.map(({ host }) => host);

/** Of a task over several hosts, where its rank 0 is. */
export function placeOf({ grant }: HeldLease): TaskPlace {
  const { lease, agents } = grant;
  const [part] = lease.gpus;
  const agent = agents.find(({ host }) => host === part?.host)?.agent;
  return {
    ...(part !== undefined && { host: part.host }),
    leaseId: lease.id,
    ...(agent !== undefined && { orderQueue: agent.orderQueue }),
  };
}

/** A host that does not answer says by the end of the batch what became of them. */
export async function stopTasks(
  { jobId, spec }: ArrayJob,
  { grant, batchSeq }: HeldLease,
  tasks: readonly number[],
): Promise<void> {
  const { id: leaseId, token } = grant.lease;
  await Promise.allSettled(
    grant.agents.map(({ host, agent }) =>
      proxyActivities<Pick<OrderActivities, "stopTasks">>({
        taskQueue: agent.orderQueue,
        startToCloseTimeout: 2 * spec.run.graceMs + 60_000,
        scheduleToStartTimeout: "30s",
        retry: { maximumAttempts: 3 },
        summary: `stop tasks ${formatTaskRanges(tasks).slice(0, 60)} of ${leaseId} on ${host}`,
      }).stopTasks({ jobId, host, leaseId, token, batchSeq, tasks, reason: "cancelled" }),
    ),
  );
}
