/** @file What a job that was granted GPUs asks of a solver worker before it starts on them. Types only. */

import type { JobSpec } from "../domain/job.ts";
import type { JobId } from "../domain/ids.ts";
import type { HostGpus } from "../domain/lease.ts";
import type { Outfit, OutfitNote, OutfitPart } from "../domain/outfit.ts";

export interface OutfitActivities {
  /**
   * Makes the parts that are wanted, side by side, each under a deadline of its own. A part that fails or comes too late is a
   * note; it never throws for one. The same order may be given twice: nothing outside is changed by it.
   */
  outfit(order: OutfitOrder): Promise<OutfitReport>;
}

export interface OutfitOrder {
  readonly fleetWorkflowId: string;
  readonly jobId: JobId;
  readonly spec: JobSpec;
  /** The whole lease, in rank order. */
  readonly gpus: readonly HostGpus[];
  readonly attempt: number;
  readonly parts: readonly OutfitPart[];
}

export interface OutfitReport extends Outfit {
  readonly notes: readonly OutfitNote[];
}
