/**
 * @file Lists jobs, newest first, from Temporal's visibility, with facts from the fleet's ledger for those that wait or run.
 *
 * Visibility is eventually consistent: a new job may be missing, or show its former state. A job that was ended from outside
 * keeps the last state that it wrote, so the status of a closed workflow takes precedence. A job that is being stopped is
 * listed as `running`, because it does not write that state and a query to each job would cost a call for each row. A job that
 * was preempted or is retried wrote that it runs although it waits; here the ledger takes precedence.
 */

import type { Client } from "@temporalio/client";
import { z } from "zod";
import { labelsOf } from "../domain/job/job-labels.ts";
import { PENDING_CODES } from "../domain/values/codes.ts";
import { byCodeUnit, clusterId, isWord, jobId, type JobId } from "../domain/values/ids.ts";
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

const word = z.string().refine(isWord);
const reason = z.object({
  code: z.enum(PENDING_CODES),
  message: z.string(),
  numbers: z.record(z.string(), z.number()),
  holders: z.array(word),
  wakeOn: z.array(z.string()),
});
const move = z.object({ from: word, to: word, code: z.enum([...PENDING_CODES, "Ordered"]) });
const counts = z.record(z.string(), z.number());

/** A value of this form as it is: whoever reaches the frontend starts workflows with any memo. Undefined of another. */
const ifOf = <Value>(form: z.ZodType): { of(value: unknown): Value | undefined } => {
  const checked = z.custom<Value>((value) => form.safeParse(value).success);
  return {
    // Most rows lack most entries, and to refuse a value costs more than the row.
    of: (value) =>
      value === undefined || value === null ? undefined : checked.safeParse(value).data,
  };
};
const WAITS = ifOf<PendingReason>(reason);
const MOVED = ifOf<CellMemo>(move);
const TASKS = ifOf<ArrayMemo>(counts);

/**
 * Page by page: a step of a generator for each job costs more than to read it. `ledger` asks for the fleet's present state, beside the first page;
 * undefined when no fleet answers.
 */
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
): AsyncGenerator<readonly ListedJob[]> {
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
    const jobs: ListedJob[] = [];
    for (const row of page.value) {
      // No job of ours: whoever reaches the frontend chooses any id for a workflow of this type.
      if (!isWord(row.workflowId)) continue;
      const job = facts(listedJob(row));
      if (fits(job) && jobs.push(job) === left) break;
    }
    left -= jobs.length;
    yield jobs;
    if (left <= 0) return;
  }
}

/** A row on its way: a spread for each field that may be absent costs more than all else of a row. */
type Draft = { -readonly [Field in keyof ListedJob]: ListedJob[Field] };

/** Adds what the ledger knows of jobs that have not ended. */
function ledgerFacts(ledger: Ledger | undefined): (job: Draft) => ListedJob {
  if (ledger === undefined) return (job) => job;
  const leases = leasesByJob(ledger);
  const typeOf = new Map(
    ledger.shape.clusters.flatMap(({ hosts }) => hosts.map(({ id, gpuType }) => [id, gpuType])),
  );
  return (job) => {
    if (job.endedAtMs !== undefined) return job;
    const held = leases.get(job.jobId) ?? [];
    const [lease] = held;
    const request = ledger.requests.get(job.jobId);
    if (lease === undefined) {
      const pending = ledger.reasons.get(job.jobId);
      const types = request?.constraints.gpuTypes;
      // A job whose last written state is running may have lost its GPUs since.
      if (job.state === "running" && request !== undefined) job.state = "pending";
      if (types !== undefined) job.gpuTypes = types;
      if (request?.priority !== undefined) job.priority = request.priority;
      if (pending !== undefined) job.pending = pending;
      return job;
    }
    const hosts = [...new Set(held.flatMap(({ gpus }) => gpus.map((part) => part.host)))];
    const types = new Set(hosts.flatMap((host) => typeOf.get(host) ?? []));
    const priority = lease.terms?.priority ?? request?.priority;
    job.hosts = hosts;
    job.gpus = held.reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0);
    job.grantedAtMs = lease.grantedAtMs;
    if (types.size > 0) job.gpuTypes = [...types].sort(byCodeUnit);
    if (priority !== undefined) job.priority = priority;
    return Object.assign(job, degradationOf(lease));
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
export function listedJob(info: JobRow): Draft {
  const attributes = info.typedSearchAttributes;
  const jobClass = attributes.get(CLASS_KEY);
  const tenant = attributes.get(TENANT_KEY);
  const gpus = attributes.get(GPUS_KEY);
  const tasks = TASKS.of(info.memo?.[ARRAY_MEMO]);
  const moved = MOVED.of(info.memo?.[CELL_MEMO]);
  const pending = info.closeTime === undefined ? WAITS.of(info.memo?.[WAITS_MEMO]) : undefined;
  const fleet = attributes.get(FLEET_KEY);
  const name = attributes.get(NAME_KEY);
  const user = attributes.get(USER_KEY);
  const labels = attributes.get(LABELS_KEY);
  const job: Draft = {
    jobId: jobId(info.workflowId),
    state: stateOf(info.status.name, attributes.get(STATE_KEY)),
    clusters: (attributes.get(CLUSTER_KEY) ?? []).filter(isWord).map(clusterId),
    hosts: [],
    submittedAtMs: info.startTime.getTime(),
  };
  if (name !== undefined) job.name = name;
  if (user !== undefined) job.user = user;
  if (labels !== undefined) job.labels = labelsOf(labels);
  if (jobClass !== undefined) job.class = jobClass;
  if (tenant !== undefined) job.tenant = tenant;
  if (gpus !== undefined) job.gpus = gpus;
  if (tasks !== undefined) job.tasks = tasks;
  if (fleet !== undefined) job.fleet = fleet;
  if (moved !== undefined) job.moved = moved;
  if (pending) job.pending = pending;
  if (info.closeTime !== undefined) job.endedAtMs = info.closeTime.getTime();
  return job;
}
