/** @file An attacker's workflow: gives a host's agent an order of its own making, as only workflows can. */

import { proxyActivities } from "@temporalio/workflow";

export async function forgedOrder(
  queue: string,
  activity: string,
  order: unknown,
): Promise<unknown> {
  const activities = proxyActivities<Record<string, (input: unknown) => Promise<unknown>>>({
    taskQueue: queue,
    startToCloseTimeout: "20s",
    heartbeatTimeout: "20s",
    retry: { maximumAttempts: 1 },
  });
  return activities[activity]?.(order);
}
