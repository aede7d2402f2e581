/** @file What a job that was granted GPUs asks of a solver worker before it starts on them. Types only. */

import type { InferenceFacts } from "../domain/model/inference-facts.ts";
import type { JobSpec } from "../domain/job/job.ts";
import type { JobId } from "../domain/values/ids.ts";
import type { HostGpus } from "../domain/lease/lease.ts";
import type {
  LaunchExtra,
  LaunchExtras,
  LaunchExtrasNote,
  PlannedDegrees,
} from "../domain/lease/launch-extras.ts";

export interface LaunchExtrasActivities {
  /**
   * Makes the parts that are wanted, side by side, each under a deadline of its own. A part that fails or comes too late is a
   * note; it never throws for one. The same order may be given twice: nothing outside is changed by it.
   */
  launchExtras(order: LaunchExtrasOrder): Promise<LaunchExtrasReport>;
}

export interface LaunchExtrasOrder {
  readonly fleetWorkflowId: string;
  readonly jobId: JobId;
  readonly spec: JobSpec;
  /** The whole lease, by host id. */
  readonly gpus: readonly HostGpus[];
  readonly attempt: number;
  readonly parts: readonly LaunchExtra[];
  /** Whoever asks starts its gang from the report's `leadHost` on; older ones start it as the lease says. */
  readonly mayLead?: true;
  /** The plan of the job's last run that had one. */
  readonly former?: PlannedDegrees;
}

export interface LaunchExtrasReport extends LaunchExtras {
  readonly notes: readonly LaunchExtrasNote[];
  /** When the plan of the run is to be improved, if it still runs then, and the time that may be spent on it. */
  readonly polish?: { readonly afterMs: number; readonly limitMs: number };
}

export interface PolishActivities {
  /**
   * Improves and certifies the plan of a served model over the GPUs of its lease within `limitMs`. The plan that it starts from is that of
   * `launchExtras`, and the answer is never slower. Null when there is none, when it took too long, or when the worker improves another plan.
   */
  polishPlan(order: PolishOrder): Promise<InferenceFacts | null>;
}

export interface PolishOrder extends Pick<
  LaunchExtrasOrder,
  "fleetWorkflowId" | "jobId" | "spec" | "gpus"
> {
  readonly limitMs: number;
}
