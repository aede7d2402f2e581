/**
 * @file Lists jobs, newest first, from Temporal's visibility, with facts from the fleet's ledger for those that wait or run.
 *
 * Visibility is eventually consistent: a new job may be missing, or show its former state. A job that was ended from outside
 * keeps the last state that it wrote, so the status of a closed workflow takes precedence. A job that is being stopped is
 * listed as `running`, because it does not write that state and a query to each job would cost a call for each row. A job that
 * was preempted or is retried wrote that it runs although it waits; here the ledger takes precedence.
 */

import type { Client } from "@temporalio/client";
import { labelsOf } from "../domain/job/job-labels.ts";
import { byCodeUnit, clusterId, jobId, type JobId } from "../domain/values/ids.ts";
import { gpuCountOf, type Lease } from "../domain/lease/lease.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import type { PendingReason } from "../domain/lease/pending.ts";
import {
  ARRAY_MEMO,
  CELL_MEMO,
  WAITS_MEMO,
  type ArrayMemo,
  type CellMemo,
} from "../protocol/messages.ts";
import { jobFits, visibilityQuery, type JobFilter } from "./job-filter.ts";
import { jobRows, type JobRow } from "./job-rows.ts";
import { stateOf, type ListedJob } from "./listed-job.ts";
import {
  CLASS_KEY,
  CLUSTER_KEY,
  FLEET_KEY,
  GPUS_KEY,
  LABELS_KEY,
  NAME_KEY,
  STATE_KEY,
  TENANT_KEY,
  USER_KEY,
} from "./search-keys.ts";
import { translated } from "./server-error.ts";

/** What a row's memo has for lists. */
const MEMOS = [ARRAY_MEMO, CELL_MEMO, WAITS_MEMO] as const;
const ATTRIBUTES = [
  ...[CLASS_KEY, CLUSTER_KEY, FLEET_KEY, GPUS_KEY, LABELS_KEY],
  ...[NAME_KEY, STATE_KEY, TENANT_KEY, USER_KEY],
].map(({ name }) => name);

/** `ledger` asks for the fleet's present state, beside the first page; undefined when no fleet answers. */
export async function* listJobs(
  client: Client,
  {
    fleet,
    filter,
    ledger,
  }: {
    readonly fleet: string;
    readonly filter: JobFilter;
    readonly ledger: () => Promise<Ledger | undefined>;
  },
): AsyncGenerator<ListedJob> {
  const query = visibilityQuery(fleet, filter);
  const fits = jobFits(filter);
  let left = filter.limit ?? Infinity;
  if (left <= 0) return;
  const pages = jobRows(client, { query, limit: left, attributes: ATTRIBUTES, memos: MEMOS });
  const nextPage = async (): Promise<IteratorResult<readonly JobRow[]>> => {
    try {
      return await pages.next();
    } catch (error) {
      throw translated(error, "the list of jobs");
    }
  };
  const [known, first] = await Promise.all([ledger(), nextPage()]);
  const facts = ledgerFacts(known);
  for (let page = first; page.done !== true; page = await nextPage()) {
    for (const row of page.value) {
      const job = facts(listedJob(row));
      if (!fits(job)) continue;
      yield job;
      left -= 1;
      if (left <= 0) return;
    }
  }
}

/** Adds what the ledger knows of jobs that have not ended. */
function ledgerFacts(ledger: Ledger | undefined): (job: ListedJob) => ListedJob {
  if (ledger === undefined) return (job) => job;
  const leases = leasesByJob(ledger);
  const typeOf = new Map(
    ledger.shape.clusters.flatMap(({ hosts }) => hosts.map(({ id, gpuType }) => [id, gpuType])),
  );
  return (listed) => {
    if (listed.endedAtMs !== undefined) return listed;
    const held = leases.get(listed.jobId) ?? [];
    const [lease] = held;
    const request = ledger.requests.get(listed.jobId);
    if (lease === undefined) {
      const pending = ledger.reasons.get(listed.jobId);
      const types = request?.constraints.gpuTypes;
      return {
        ...listed,
        // A job whose last written state is running may have lost its GPUs since.
        ...(listed.state === "running" && request !== undefined && { state: "pending" }),
        ...(types !== undefined && { gpuTypes: types }),
        ...(request?.priority !== undefined && { priority: request.priority }),
        ...(pending !== undefined && { pending }),
      };
    }
    const hosts = [...new Set(held.flatMap(({ gpus }) => gpus.map((part) => part.host)))];
    const types = new Set(hosts.flatMap((host) => typeOf.get(host) ?? []));
    const priority = lease.terms?.priority ?? request?.priority;
    return {
      ...listed,
      hosts,
      gpus: held.reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0),
      grantedAtMs: lease.grantedAtMs,
      ...(types.size > 0 && { gpuTypes: [...types].sort(byCodeUnit) }),
      ...(priority !== undefined && { priority }),
      ...degradationOf(lease),
    };
  };
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

/** The facts of one job that visibility has. */
export function listedJob(info: JobRow): ListedJob {
  const attributes = info.typedSearchAttributes;
  const jobClass = attributes.get(CLASS_KEY);
  const tenant = attributes.get(TENANT_KEY);
  const gpus = attributes.get(GPUS_KEY);
  const tasks = info.memo?.[ARRAY_MEMO] as ArrayMemo | undefined;
  const moved = info.memo?.[CELL_MEMO] as CellMemo | undefined;
  const waits = info.memo?.[WAITS_MEMO] as PendingReason | null | undefined;
  const pending = info.closeTime === undefined ? waits : undefined;
  const fleet = attributes.get(FLEET_KEY);
  const name = attributes.get(NAME_KEY);
  const user = attributes.get(USER_KEY);
  const labels = attributes.get(LABELS_KEY);
  return {
    jobId: jobId(info.workflowId),
    state: stateOf(info.status.name, attributes.get(STATE_KEY)),
    ...(name !== undefined && { name }),
    ...(user !== undefined && { user }),
    ...(labels !== undefined && { labels: labelsOf(labels) }),
    ...(jobClass !== undefined && { class: jobClass }),
    ...(tenant !== undefined && { tenant }),
    ...(gpus !== undefined && { gpus }),
    ...(tasks !== undefined && { tasks }),
    ...(fleet !== undefined && { fleet }),
    ...(moved !== undefined && { moved }),
    ...(pending && { pending }),
    clusters: (attributes.get(CLUSTER_KEY) ?? []).map(clusterId),
    hosts: [],
    submittedAtMs: info.startTime.getTime(),
    ...(info.closeTime !== undefined && { endedAtMs: info.closeTime.getTime() }),
  };
}
