/**
 * @file What a run is given before it starts: one activity on a solver worker, whose failure costs a note and never the run.
 *
 * A wish to stop ends the wait; the gang then starts nothing. History: 3 events for a job that wants any of it.
 */

import { CancellationScope, condition, proxyActivities } from "@temporalio/workflow";
import type { OutfitActivities, OutfitOrder, OutfitReport } from "../activities/outfit-contract.ts";
import type { StopWish } from "./gang-run.ts";
import { SOLVER_TASK_QUEUE } from "./messages.ts";

/** GPUs are held meanwhile: longer than the slowest provider's deadline and a solver worker's start, and no more. */
const { outfit } = proxyActivities<OutfitActivities>({
  taskQueue: SOLVER_TASK_QUEUE,
  scheduleToStartTimeout: "30s",
  startToCloseTimeout: "90s",
  scheduleToCloseTimeout: "120s",
  retry: { maximumAttempts: 2, initialInterval: "500ms" },
  summary: "what the run is given before it starts",
});

/** Undefined when the job is to stop instead. */
export async function outfitRun(
  order: OutfitOrder,
  wish: StopWish,
): Promise<OutfitReport | undefined> {
  const scope = new CancellationScope();
  const asked = scope.run(() => outfit(order)).catch((): OutfitReport => unanswered(order));
  const isStopping = (): boolean =>
    wish.reason !== undefined || wish.preempt !== undefined || wish.fenced.size > 0;
  const report = await Promise.race([asked, condition(isStopping).then(() => undefined)]);
  if (report === undefined) scope.cancel();
  return report;
}

const unanswered = ({ parts }: OutfitOrder): OutfitReport => ({
  env: {},
  files: [],
  notes: parts.map((part) => ({
    part,
    kind: "fallback",
    message:
      "started without: no solver worker made it in time. Look at `orbweaver worker --role solver`.",
  })),
});
