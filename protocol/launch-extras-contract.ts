/** @file What a job that was granted GPUs asks of a solver worker before it starts on them. Types only. */

import type { JobSpec } from "../domain/job/job.ts";
import type { JobId } from "../domain/values/ids.ts";
import type { HostGpus } from "../domain/lease/lease.ts";
import type { LaunchExtras, LaunchExtrasNote, LaunchExtra } from "../domain/lease/launch-extras.ts";

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
  /** The whole lease, in rank order. */
  readonly gpus: readonly HostGpus[];
  readonly attempt: number;
  readonly parts: readonly LaunchExtra[];
}

export interface LaunchExtrasReport extends LaunchExtras {
  readonly notes: readonly LaunchExtrasNote[];
}
