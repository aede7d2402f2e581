/** @file The number of tasks that wait in a task queue, by the server's own count, for all versions of its workers together. */

import type { Client } from "@temporalio/client";
import proto from "@temporalio/proto";

const { TASK_QUEUE_TYPE_WORKFLOW, TASK_QUEUE_TYPE_ACTIVITY } =
  proto.temporal.api.enums.v1.TaskQueueType;

export type TaskKind = "workflow" | "activity";

/** The server's approximation: never zero while a task waits. Queries are not counted. */
export async function backlogCount(
  client: Client,
  taskQueue: string,
  kinds: readonly TaskKind[] = ["workflow", "activity"],
): Promise<number> {
  const counts = await Promise.all(
    kinds.map(async (kind) => {
      const { stats } = await client.workflowService.describeTaskQueue({
        namespace: client.options.namespace,
        taskQueue: { name: taskQueue },
        taskQueueType: kind === "workflow" ? TASK_QUEUE_TYPE_WORKFLOW : TASK_QUEUE_TYPE_ACTIVITY,
        reportStats: true,
      });
      return Number(stats?.approximateBacklogCount ?? 0);
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
}
