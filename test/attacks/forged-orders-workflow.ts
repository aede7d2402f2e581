/** @file An attacker's workflows: one gives a worker an order of its own making, as only workflows can; one answers questions about a job that is none. */

import { condition, defineQuery, proxyActivities, setHandler } from "@temporalio/workflow";

export async function forgedOrder(
  queue: string,
  activity: string,
  ...order: readonly unknown[]
): Promise<unknown> {
  const activities = proxyActivities<
    Record<string, (...input: readonly unknown[]) => Promise<unknown>>
  >({
    taskQueue: queue,
    startToCloseTimeout: "20s",
    heartbeatTimeout: "20s",
    retry: { maximumAttempts: 1 },
  });
  return activities[activity]?.(...order);
}

/** Of the type of jobs. */
export async function job(view: unknown): Promise<void> {
  setHandler(defineQuery("job"), () => view);
  await condition(() => false);
}
