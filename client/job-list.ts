/**
 * @file Lists jobs, newest first, from Temporal's visibility, with facts from the fleet's ledger for those that wait or run.
 *
 * Visibility is eventually consistent: a new job may be missing, or show its former state. A job that was ended from outside
 * keeps the last state that it wrote, so the status of a closed workflow takes precedence. A job that is being stopped is
 * listed as `running`, because it does not write that state and a query to each job would cost a call for each row. A job that
 * was preempted or is retried wrote that it runs although it waits; here the ledger takes precedence.
 */

import type { Client, WorkflowExecutionInfo } from "@temporalio/client";
import { OrbweaverError } from "../domain/values/failure.ts";
import { clusterId, jobId, type ClusterId, type HostId, type JobId } from "../domain/values/ids.ts";
import { gpuCountOf, type Lease } from "../domain/lease/lease.ts";
import type { PendingReason } from "../domain/lease/pending.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import {
  ARRAY_MEMO,
  CELL_MEMO,
  JOB_WORKFLOW,
  type ArrayMemo,
  type CellMemo,
  type JobState,
} from "../protocol/messages.ts";
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
  /** Includes ended jobs; absent: only when `state` requests them. */
  readonly all?: boolean;
  readonly limit?: number;
}

export interface ListedJob {
  readonly jobId: JobId;
  readonly state: ListedState | "terminated" | "timed-out";
  readonly class?: string;
  readonly tenant?: string;
  /** GPUs that the job holds or, while it waits, requests. */
  readonly gpus?: number;
  /** Of a gang that is smaller than the job asked for: its full size. */
  readonly gpusRequested?: number;
  /** The job that its GPUs are being taken for; the job itself when it is to restart with more of them. */
  readonly preemptedFor?: JobId;
  /** The clusters of its last run. */
  readonly clusters: readonly ClusterId[];
  /** Hosts of its present leases. */
  readonly hosts: readonly HostId[];
  readonly submittedAtMs: number;
  /** Time of its present lease. */
  readonly grantedAtMs?: number;
  readonly endedAtMs?: number;
  /** Of a job array: progress of its tasks, to about a twentieth. */
  readonly tasks?: ArrayMemo;
  /** The fleet's present reason for its waiting. */
  readonly pending?: PendingReason;
  /**
   * The fleet that has its request or its run, or had its last run; jobs of this fleet that moved to another fleet are listed
   * too.
   */
  readonly fleet?: string;
  /** Of a job that has moved to another fleet: the time of the last move. */
  readonly moved?: CellMemo;
}

const ENDED: ReadonlySet<ListedState> = new Set(["completed", "failed", "cancelled"]);

/** `ledger` is the fleet's present state; absent when no fleet answers. */
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

/** A job whose last written state is running may have lost its GPUs since. */
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

/** Some jobs that wait again last wrote that they run. */
const stateQuery = (state: ListedState): string =>
  state === "pending"
    ? `(${isEqual(STATE_KEY, state)} OR ${isEqual(STATE_KEY, "running")})`
    : isEqual(STATE_KEY, state);

/** The facts of one job that visibility has. */
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

/** The state of a job from its workflow's status and the last state that it wrote (`said`). */
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

function isListedState(text: string | undefined): text is ListedState {
  const states: readonly string[] = JOB_STATES;
  return text !== undefined && states.includes(text);
}

/** Parses the state of a filter that a user wrote. */
export function parseJobState(text: string): ListedState {
  if (isListedState(text)) return text;
  throw new OrbweaverError(
    "BAD_INPUT",
    `${JSON.stringify(text)} is not a state to list jobs by. Use ${JOB_STATES.join(", ")}; a job that is being stopped is listed as running.`,
  );
}
