/**
 * @file Has a run's launch extras made by a solver worker. A failure costs a note, never the run. History: three events for a job that
 * wants any.
 */

import { CancellationScope, proxyActivities } from "@temporalio/workflow";
import type { JobCommand, JobEvent } from "../../machines/job/job-state.ts";
import type { LaunchExtrasActivities } from "../../protocol/launch-extras-contract.ts";
import { SOLVER_TASK_QUEUE } from "../../protocol/messages.ts";

/** GPUs are held meanwhile: longer than the slowest provider's deadline and a solver worker's start, and no more. */
const { launchExtras } = proxyActivities<LaunchExtrasActivities>({
  taskQueue: SOLVER_TASK_QUEUE,
  scheduleToStartTimeout: "30s",
  startToCloseTimeout: "90s",
  scheduleToCloseTimeout: "120s",
  retry: { maximumAttempts: 2, initialInterval: "500ms" },
  summary: "what the run is given before it starts",
});

type Make = Extract<JobCommand, { readonly kind: "make-extras" }>;

export interface ExtrasCarrier {
  readonly make: (command: Make) => Promise<JobEvent>;
  readonly cancel: () => void;
}

export function extrasCarrier(): ExtrasCarrier {
  let scope: CancellationScope | undefined;
  return {
    async make({ id, order }) {
      const own = new CancellationScope();
      scope = own;
      try {
        return { kind: "extras", id, report: await own.run(() => launchExtras(order)) };
      } catch {
        return { kind: "extras", id, report: null };
      }
    },
    cancel: () => scope?.cancel(),
  };
}
