/**
 * @file The account of service: how much each flow of the queue was served, and where it stands among its siblings.
 *
 * A flow is served the GPUs that its jobs hold: v += gpus · seconds / weight is its *virtual service*, and the flow with the least is
 * next (queue/tawfq.ts).
 */

import { gpuCountOf, type Lease } from "../domain/lease.ts";
import { classFlow, tenantFlow } from "./queue/flow.ts";

/** What the jobs of each flow hold. A vacating lease serves nobody: its job is gone. Cost: O(leases). */
export function runningGpusOf(leases: Iterable<Lease>): Map<string, number> {
  const running = new Map<string, number>();
  for (const lease of leases) addRunning(running, lease, 1);
  return running;
}

export function addRunning(running: Map<string, number>, lease: Lease, sign: 1 | -1): void {
  if (lease.state === "vacating") return;
  const gpuCount = gpuCountOf(lease.gpus);
  for (const flow of [classFlow(lease), tenantFlow(lease)]) {
    const left = (running.get(flow) ?? 0) + sign * gpuCount;
    if (left > 0) running.set(flow, left);
    else running.delete(flow);
  }
}
