/**
 * @file Sweeps up after a job that is gone: a stop order to each host of its lease until the host says that nothing runs there.
 *
 * The stop revokes the lease's token on the host, so that a start that is still on its way comes to nothing. A host that is
 * silent is asked again, with a growing pause, until it answers or the fleet no longer waits for it (it was fenced).
 * Rare: most jobs end by themselves and their last word names every host.
 */

import { continueAsNew, proxyActivities, sleep } from "@temporalio/workflow";
import type { OrderActivities } from "../activities/agent-contract.ts";
import type { JobActivities } from "../activities/control-contract.ts";
import type { HostId } from "../domain/ids.ts";
import { fleetWorkflowId, type SweepInput } from "./messages.ts";

const PAUSE_MS = 2_000;
const PAUSE_MAX_MS = 300_000;
/** A pass costs about thirty events for each host. */
const PASSES_PER_RUN = 100;

/** No local activities: several at a time end in another order on replay (docs/decisions/0014). */
const { findHost, tellFleet, hasLease } = proxyActivities<
  Pick<JobActivities, "findHost" | "tellFleet" | "hasLease">
>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
});

export async function sweep(input: SweepInput): Promise<void> {
  const { fleet, lease } = input;
  const fleetId = fleetWorkflowId(fleet);
  const left = new Set<HostId>(input.hosts);
  let pauseMs = PAUSE_MS;
  for (let pass = 0; pass < PASSES_PER_RUN; pass += 1) {
    await Promise.all(
      [...left].map(async (host) => {
        if (!(await stopOn(host))) return;
        left.delete(host);
        await tellFleet(fleetId, { kind: "vacated", lease, hosts: [host] });
      }),
    );
    if (left.size === 0 || !(await hasLease(fleetId, lease))) return;
    await sleep(pauseMs);
    pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
  }
  await continueAsNew<typeof sweep>({ ...input, hosts: [...left] });

  async function stopOn(host: HostId): Promise<boolean> {
    const agent = await findHost(fleetId, host);
    if (agent === null) return false;
    const { stop } = proxyActivities<Pick<OrderActivities, "stop">>({
      taskQueue: agent.orderQueue,
      startToCloseTimeout: "10m",
      scheduleToStartTimeout: "30s",
      retry: { maximumAttempts: 2 },
      summary: `sweep ${lease} of ${input.jobId} on ${host}`,
    });
    try {
      await stop({
        jobId: input.jobId,
        host,
        leaseId: lease,
        token: input.token,
        isCheckpointFirst: false,
        reason: "its job is gone",
      });
      return true;
    } catch {
      // No answer is no proof: it is asked again.
      return false;
    }
  }
}
