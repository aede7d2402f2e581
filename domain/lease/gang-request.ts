/** @file A job's request to its fleet: the part of the description that scheduling reads, and its size limit. */

import type { CheckpointRule, JobSpec } from "../job/job.ts";
import { gpuNeed } from "../job/job-resources.ts";
import { trainingText } from "../job/training-text.ts";
import type { CheckpointTerms, GangRequest } from "./lease.ts";

/** Limit of the part that scheduling reads, as JSON, because thousands of them wait in one ledger. Checked at admission. */
export const MAX_REQUEST_BYTES = 8 * 1024;
/** The same with the ids and avoided hosts of a request; the fleet reads nothing larger. */
export const MAX_REQUEST_ENTRY_BYTES = 2 * MAX_REQUEST_BYTES;

/** The part of a description that scheduling reads. */
export type ScheduledPart = Omit<
  GangRequest,
  | "jobId"
  | "runId"
  | "seq"
  | "submittedAtMs"
  | "requestedAtMs"
  | "avoidHosts"
  | "patienceMs"
  | "credit"
  | "round"
>;

export function scheduledPart(spec: JobSpec): ScheduledPart {
  const { name, tenant, class: jobClass, priority, gang, constraints, timeLimitMs, array } = spec;
  const { preemption } = spec;
  const { checkpoint, resources } = spec.run;
  const training = trainingText(spec);
  return {
    name,
    tenant,
    class: jobClass,
    priority,
    gang,
    constraints: {
      ...constraints,
      ...(resources !== undefined && {
        resources: gpuNeed(resources, array === undefined ? gang.min : gang.gpus),
      }),
      ...(training !== undefined && { training }),
    },
    ...(timeLimitMs !== undefined && { timeLimitMs }),
    ...(array !== undefined && { slots: array.parallel }),
    ...(preemption !== undefined && { preemption }),
    ...(checkpoint !== undefined && { checkpoint: checkpointTerms(checkpoint) }),
  };
}

const checkpointTerms = ({ graceMs, intervalMs }: CheckpointRule): CheckpointTerms => ({
  graceMs,
  ...(intervalMs !== undefined && { intervalMs }),
});
