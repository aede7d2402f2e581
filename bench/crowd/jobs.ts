/** @file The jobs of a crowd as columns: a million of them take megabytes, so that what is measured is the machines' memory. */

import type { JobClass } from "../../domain/job/job.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import { jobId, runId, tenantId, type JobId, type TenantId } from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";

export interface CrowdSize {
  readonly jobs: number;
  readonly tenants: number;
}

/** Waits, inside or outside, from its submission on. */
export const WAITS = 1;
export const RUNS = 2;
export const DONE = 3;
export const CANCELLED = 4;

/** One job in so many is cancelled while it waits, and one in so many asks for GPUs that nobody has. */
const CANCELLED_ONE_IN = 31;
const IMPOSSIBLE_ONE_IN = 5_003;

export interface Jobs {
  readonly count: number;
  readonly state: Uint8Array;
  readonly starts: Uint8Array;
  readonly tenantOf: (job: number) => TenantId;
  readonly isImpossible: (job: number) => boolean;
  readonly isCancelled: (job: number) => boolean;
  readonly requestOf: (job: number, place?: Pick<GangRequest, "credit" | "round">) => GangRequest;
  readonly classOf: (job: number) => JobClass;
}

export const indexOf = (id: JobId): number => Number(id.slice("job-".length));

export const idOf = (job: number): JobId => jobId(`job-${String(job)}`);

export const runOf = (job: number) =>
  runId(`00000000-0000-4000-8000-${job.toString(16).padStart(12, "0")}`);

/** The first tenant has half of the jobs. */
export function createJobs({ jobs: count, tenants }: CrowdSize): Jobs {
  const state = new Uint8Array(count);
  const ids = Array.from({ length: tenants }, (_, at) => tenantId(`tenant-${String(at)}`));
  const first = ids[0] ?? tenantId("tenant-0");
  const tenantOf = (job: number): TenantId =>
    job % 2 === 0 ? first : (ids[1 + (((job - 1) / 2) % (tenants - 1))] ?? first);
  const classOf = (job: number): JobClass => (job % 10 === 3 ? "interactive" : "training");
  return {
    count,
    state,
    starts: new Uint8Array(count),
    tenantOf,
    classOf,
    isImpossible: (job) => job % IMPOSSIBLE_ONE_IN === 17,
    isCancelled: (job) => job % CANCELLED_ONE_IN === 7,
    requestOf: (job, place = {}) => ({
      name: "crowd",
      tenant: tenantOf(job),
      class: classOf(job),
      priority: 0,
      gang: { gpus: 1, min: 1, timeoutMs: ms(0) },
      constraints: { isSameHost: false, isSameFabric: false },
      jobId: idOf(job),
      runId: runOf(job),
      seq: 1,
      submittedAtMs: job,
      requestedAtMs: job,
      ...place,
    }),
  };
}
