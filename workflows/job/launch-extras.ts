/**
 * @file Has a run's launch extras made by a solver worker, and its plan improved. A failure costs a note, never the run. History: three
 * events for a job that wants any, and five for an improvement.
 */

import { CancellationScope, patched, proxyActivities } from "@temporalio/workflow";
import type { JobCommand, JobEvent } from "../../machines/job/job-state.ts";
import type {
  LaunchExtrasActivities,
  LaunchExtrasReport,
  PolishActivities,
} from "../../protocol/launch-extras-contract.ts";
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

/** The search and the MILPs end by their own limit; what is added is for reading the model, and for a busy machine. */
const { polishPlan } = proxyActivities<PolishActivities>({
  taskQueue: SOLVER_TASK_QUEUE,
  scheduleToStartTimeout: "600s",
  startToCloseTimeout: "180s",
  heartbeatTimeout: "30s",
  retry: { maximumAttempts: 2, initialInterval: "500ms" },
  summary: "a better plan, and how far it is from the best",
});

export const polish = ({ id, order }: Polish): Promise<JobEvent> =>
  polishPlan(order).then(
    (facts) => ({ kind: "polished", id, facts }),
    () => ({ kind: "polished", id, facts: null }),
  );

type Polish = Extract<JobCommand, { readonly kind: "polish-plan" }>;
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
        return { kind: "extras", id, report: heeded(await own.run(() => launchExtras(order))) };
      } catch {
        return { kind: "extras", id, report: null };
      }
    },
    cancel: () => scope?.cancel(),
  };
}

/**
 * A jobs worker that knew of no improvement set no timer for it, whatever a newer solver worker reported: such a history has no marker.
 */
function heeded(report: LaunchExtrasReport): LaunchExtrasReport {
  const { polish: terms, ...rest } = report;
  return terms === undefined || patched("polish") ? report : rest;
}
