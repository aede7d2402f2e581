/**
 * @file Lists jobs newest first from Temporal's visibility, with what the fleet's ledger knows of those that wait or run.
 *
 * Visibility is eventually consistent: a job of this second may be missing or show its former state. A job that was ended
 * from outside keeps the state that it last wrote of itself, so the workflow's own status decides once it is closed.
 * A job that is being stopped is `running` here: it does not write that of itself, and asking each job would cost a call a row. One that
 * ran and waits again, because it was preempted or is tried again, wrote that it runs; the ledger knows better.
 */

import type { Client, WorkflowExecutionInfo } from "@temporalio/client";
import { OrbweaverError } from "../domain/failure.ts";
import { clusterId, jobId, type ClusterId, type HostId, type JobId } from "../domain/ids.ts";
import { gpuCountOf, type Lease } from "../domain/lease.ts";
import type { PendingReason } from "../domain/pending.ts";
import {
  ARRAY_MEMO,
  CELL_MEMO,
  JOB_WORKFLOW,
  type ArrayMemo,
  type CellMemo,
  type JobState,
  type Ledger,
} from "../workflows/messages.ts";
import {
  CLASS_KEY,
  CLUSTER_KEY,
  FLEET_KEY,
  GPUS_KEY,
  HOME_KEY,
  isEqual,
  STATE_KEY,
  TENANT_KEY,
} from "./search-keys.ts";
import { translated } from "./server-error.ts";

export interface JobFilter {
  readonly class?: string;
  readonly tenant?: string;
  readonly state?: ListedState;
  readonly cluster?: string;
  /** Ended jobs too; they are left out when absent, unless `state` asks for them. */
  readonly all?: boolean;
  readonly limit?: number;
}

export interface ListedJob {
  readonly jobId: JobId;
  readonly state: ListedState | "terminated" | "timed-out";
  readonly class?: string;
  readonly tenant?: string;
  /** GPUs that it holds or, while it waits, asks for. */
  readonly gpus?: number;
  /** Of a gang that is smaller than the job asked for: its full size. */
  readonly gpusRequested?: number;
  /** It is to give up its GPUs for this job, or to go on with more of them when it is the job itself. */
  readonly preemptedFor?: JobId;
  /** Clusters that it ran in last. */
  readonly clusters: readonly ClusterId[];
  /** Hosts that it holds now. */
  readonly hosts: readonly HostId[];
  readonly submittedAtMs: number;
  /** When it got its present lease. */
  readonly grantedAtMs?: number;
  readonly endedAtMs?: number;
  /** Of a job array: how far its tasks are, to about a twentieth. */
  readonly tasks?: ArrayMemo;
  /** Why it waits, as the fleet sees it now. */
  readonly pending?: PendingReason;
  /** Where it is asked for, runs, or ran last; jobs of this fleet that moved to another one are listed, too. */
  readonly fleet?: string;
  /** Of a job that has moved: the last time. */
  readonly moved?: CellMemo;
}

const ENDED: ReadonlySet<ListedState> = new Set(["completed", "failed", "cancelled"]);

/** `ledger` is a look at the fleet of this moment; absent when no fleet answers. */
export async function* listJobs(
  client: Client,
  {
    fleet,
    filter,
    ledger,
  }: { readonly fleet: string; readonly filter: JobFilter; readonly ledger?: Ledger },
): AsyncGenerator<ListedJob> {
  const query = visibilityQuery(fleet, filter);
  const leases = leasesByJob(ledger);
  let left = filter.limit ?? Infinity;
  if (left <= 0) return;
  try {
    for await (const info of client.workflow.list({ query, pageSize: Math.min(left, 1000) })) {
      const listed = withLedgerState(listedJob(info), { ledger, leases });
      // The state attribute of a job that was ended from outside is stale; its status is not.
      if (filter.state !== undefined && listed.state !== filter.state) continue;
      const held = leases.get(listed.jobId) ?? [];
      const [lease] = held;
      const pending = lease === undefined ? ledger?.reasons.get(listed.jobId) : undefined;
      yield {
        ...listed,
        ...(lease !== undefined &&
          listed.endedAtMs === undefined && {
            hosts: [...new Set(held.flatMap(({ gpus }) => gpus.map((part) => part.host)))],
            gpus: held.reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0),
            grantedAtMs: lease.grantedAtMs,
            ...degradationOf(lease),
          }),
        ...(pending !== undefined && listed.endedAtMs === undefined && { pending }),
      };
      left -= 1;
      if (left <= 0) return;
    }
  } catch (error) {
    throw translated(error, "the list of jobs");
  }
}

/** A job that wrote that it runs may have lost its GPUs since, and wait. */
function withLedgerState(
  job: ListedJob,
  {
    ledger,
    leases,
  }: { readonly ledger: Ledger | undefined; readonly leases: ReadonlyMap<JobId, unknown> },
): ListedJob {
  const waits = ledger?.requests.has(job.jobId) === true && !leases.has(job.jobId);
  return job.state === "running" && waits ? { ...job, state: "pending" } : job;
}

function degradationOf({
  gpus,
  slots,
  terms,
  eviction,
}: Lease): Pick<ListedJob, "gpusRequested" | "preemptedFor"> {
  const wanted = slots === undefined ? (terms?.gang.gpus ?? 0) : 0;
  return {
    ...(wanted > gpuCountOf(gpus) && { gpusRequested: wanted }),
    ...(eviction?.isSent === true && { preemptedFor: eviction.forJob }),
  };
}

/** A job array has many, in the order in which they were granted. */
function leasesByJob(ledger: Ledger | undefined): ReadonlyMap<JobId, readonly Lease[]> {
  const byJob = new Map<JobId, Lease[]>();
  for (const lease of ledger?.leases.values() ?? []) {
    const former = byJob.get(lease.jobId);
    if (former === undefined) byJob.set(lease.jobId, [lease]);
    else former.push(lease);
  }
  return byJob;
}

/** Temporal's visibility query for a filter. */
export function visibilityQuery(fleet: string, filter: JobFilter): string {
  const { class: jobClass, tenant, state, cluster, all } = filter;
  const isOpenOnly = all !== true && (state === undefined || !ENDED.has(state));
  return [
    `WorkflowType = "${JOB_WORKFLOW}"`,
    `(${isEqual(FLEET_KEY, fleet)} OR ${isEqual(HOME_KEY, fleet)})`,
    ...(isOpenOnly ? ['ExecutionStatus = "Running"'] : []),
    ...(jobClass === undefined ? [] : [isEqual(CLASS_KEY, jobClass)]),
    ...(tenant === undefined ? [] : [isEqual(TENANT_KEY, tenant)]),
    ...(state === undefined ? [] : [stateQuery(state)]),
    ...(cluster === undefined ? [] : [isEqual(CLUSTER_KEY, cluster)]),
  ].join(" AND ");
}

/** Of those that wait again some wrote last that they run. */
const stateQuery = (state: ListedState): string =>
  state === "pending"
    ? `(${isEqual(STATE_KEY, state)} OR ${isEqual(STATE_KEY, "running")})`
    : isEqual(STATE_KEY, state);

/** What visibility alone says of one job. */
export function listedJob(info: WorkflowExecutionInfo): ListedJob {
  const attributes = info.typedSearchAttributes;
  const jobClass = attributes.get(CLASS_KEY);
  const tenant = attributes.get(TENANT_KEY);
  const gpus = attributes.get(GPUS_KEY);
  const tasks = info.memo?.[ARRAY_MEMO] as ArrayMemo | undefined;
  const moved = info.memo?.[CELL_MEMO] as CellMemo | undefined;
  const fleet = attributes.get(FLEET_KEY);
  return {
    jobId: jobId(info.workflowId),
    state: stateOf(info.status.name, attributes.get(STATE_KEY)),
    ...(jobClass !== undefined && { class: jobClass }),
    ...(tenant !== undefined && { tenant }),
    ...(gpus !== undefined && { gpus }),
    ...(tasks !== undefined && { tasks }),
    ...(fleet !== undefined && { fleet }),
    ...(moved !== undefined && { moved }),
    clusters: (attributes.get(CLUSTER_KEY) ?? []).map(clusterId),
    hosts: [],
    submittedAtMs: info.startTime.getTime(),
    ...(info.closeTime !== undefined && { endedAtMs: info.closeTime.getTime() }),
  };
}

/** The state of a job whose workflow has this status and last wrote `said` of itself. */
export function stateOf(status: string, said: string | undefined): ListedJob["state"] {
  switch (status) {
    case "COMPLETED":
      return "completed";
    case "FAILED":
      return "failed";
    case "CANCELLED":
      return "cancelled";
    case "TERMINATED":
      return "terminated";
    case "TIMED_OUT":
      return "timed-out";
    default:
      return isListedState(said) ? said : "pending";
  }
}

/** The states that jobs can be listed by. */
export const JOB_STATES = [
  "pending",
  "held",
  "running",
  "completed",
  "failed",
  "cancelled",
] as const satisfies readonly JobState[];

export type ListedState = (typeof JOB_STATES)[number];

export function isListedState(text: string | undefined): text is ListedState {
  const states: readonly string[] = JOB_STATES;
  return text !== undefined && states.includes(text);
}

/** The state of a filter as a user wrote it. */
export function parseJobState(text: string): ListedState {
  if (isListedState(text)) return text;
  throw new OrbweaverError(
    "BAD_INPUT",
    `${JSON.stringify(text)} is no state that jobs are listed by. Use ${JOB_STATES.join(", ")}; one that is being stopped is listed as running.`,
  );
}
