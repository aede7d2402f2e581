/** @file A timed drain is started with a delay, and then drains its host by the fleet's own order. Until then there is nothing of it but the server's timer. */

import { proxyActivities } from "@temporalio/workflow";
import type { JobActivities } from "../../protocol/control-contract.ts";
import type { TimedDrainInput } from "../../protocol/timed-drain.ts";

const { drainHost } = proxyActivities<Pick<JobActivities, "drainHost">>({
  startToCloseTimeout: "30s",
  retry: { maximumInterval: "1m" },
});

export async function timedDrain(order: TimedDrainInput): Promise<void> {
  await drainHost(order);
}
