/**
 * @file A pool of GPUs that are all alike, served by a queue in its order alone: the first in line starts as soon as it fits, nobody
 * passes it. Time jumps from event to event; the account of service is the product's own.
 */

import { hostId, jobId, leaseId, runId, tenantId, token } from "../../../domain/values/ids.ts";
import type { TenantRule } from "../../../domain/fleet/fleet.ts";
import type { JobClass } from "../../../domain/job/job.ts";
import type { HostGpus, Lease } from "../../../domain/lease/lease.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import type { Queue, QueuePolicy, QueueCursor } from "../../../scheduling/queue/queue-policy.ts";
import {
  factsOf,
  noteLease,
  noteRequest,
  openBook,
  settle,
  type ServiceBook,
} from "../../../scheduling/ledger/rules/service-account.ts";
import { fleetShape, gangRequest } from "../builders.ts";

export interface PoolJob {
  readonly class: JobClass;
  readonly tenant: string;
  readonly gpus: number;
  readonly atMs: number;
  readonly runMs: number;
  readonly priority?: number;
}

export interface Started {
  readonly job: PoolJob;
  readonly startedAtMs: number;
}

export interface PoolMoment {
  readonly nowMs: number;
  readonly book: ServiceBook;
  readonly queue: Queue;
  /** What came by now, waiting or not. */
  readonly waiting: ReadonlyMap<string, PoolJob>;
  readonly running: readonly { readonly job: PoolJob; readonly endsAtMs: number }[];
}

export interface PoolWatch {
  /** After the events of a moment, before anything starts. */
  readonly moment?: (moment: PoolMoment) => void;
  /** Just before a job is put in line. */
  readonly arrival?: (name: string, job: PoolJob, moment: PoolMoment) => void;
}

export const rule = (id: string, weight: number): TenantRule => ({
  id: tenantId(id),
  weight,
  quota: {},
  borrowingLimit: 0,
});

export const pendingOf = (name: string, job: PoolJob, arrival: number): PendingRequest => ({
  ...gangRequest({
    job: name,
    tenant: job.tenant,
    class: job.class,
    gpus: job.gpus,
    priority: job.priority ?? 0,
    submittedAtMs: job.atMs,
    requestedAtMs: job.atMs,
  }),
  arrival,
});

export function leaseOf(request: PendingRequest, nowMs: number, number: number): Lease {
  const { jobId: job, class: jobClass, tenant, seq, requestedAtMs } = request;
  return {
    id: leaseId(token(number)),
    token: token(number),
    jobId: job,
    runId: runId(`${job}-run1`),
    seq,
    class: jobClass,
    tenant,
    gpus: gpusOf(request.gang.gpus),
    grantedAtMs: nowMs,
    requestedAtMs,
    state: "held",
  };
}

/** So many GPUs, on whatever hosts. */
const gpusOf = (count: number): readonly HostGpus[] =>
  Array.from({ length: Math.ceil(count / 8) }, (_, at) => ({
    host: hostId("pool", `h${at}`),
    mask: 2 ** Math.min(8, count - 8 * at) - 1,
  }));

export const idsOf = (turn: QueueCursor): readonly string[] =>
  requestsOf(turn).map(({ jobId: id }) => id);

export function requestsOf(turn: QueueCursor): readonly PendingRequest[] {
  const requests: PendingRequest[] = [];
  for (let next = turn.next(); next !== undefined; next = turn.next()) requests.push(next);
  return requests;
}

/** Until `untilMs`, or until all have started. */
export function runPool(
  policy: QueuePolicy,
  jobs: readonly PoolJob[],
  {
    gpuCount,
    tenants = [],
    untilMs = Infinity,
    watch = {},
  }: {
    readonly gpuCount: number;
    readonly tenants?: readonly TenantRule[];
    readonly untilMs?: number;
    readonly watch?: PoolWatch;
  },
): { readonly started: ReadonlyMap<string, Started>; readonly book: ServiceBook } {
  const shape = { ...fleetShape([]), tenants };
  const book = openBook({ shape, leases: new Map(), requests: new Map() });
  const queue = policy.open({ requests: [], tenants });
  const arrivals = jobs
    .map((job, at) => ({ name: `j${at}`, job }))
    .sort((a, b) => a.job.atMs - b.job.atMs);
  const waiting = new Map<string, PoolJob>();
  const started = new Map<string, Started>();
  let running: { readonly job: PoolJob; readonly endsAtMs: number; readonly lease: Lease }[] = [];
  let free = gpuCount;
  let came = 0;
  for (;;) {
    const nowMs = Math.min(
      arrivals[came]?.job.atMs ?? Infinity,
      ...running.map(({ endsAtMs }) => endsAtMs),
    );
    if (nowMs === Infinity || nowMs > untilMs) break;
    settle(book, nowMs);
    for (const { lease, job } of running.filter(({ endsAtMs }) => endsAtMs === nowMs)) {
      noteLease(book, lease, undefined);
      free += job.gpus;
    }
    running = running.filter(({ endsAtMs }) => endsAtMs > nowMs);
    const moment = { nowMs, book, queue, waiting };
    for (let next = arrivals[came]; next?.job.atMs === nowMs; next = arrivals[came]) {
      const request = pendingOf(next.name, next.job, came);
      watch.arrival?.(next.name, next.job, { ...moment, running });
      waiting.set(next.name, next.job);
      noteRequest(book, undefined, request);
      queue.add(request);
      came += 1;
    }
    watch.moment?.({ ...moment, running });
    for (;;) {
      const first = queue.order(nowMs, factsOf(book)).next();
      if (first === undefined || first.gang.gpus > free) break;
      const job = waiting.get(first.jobId);
      if (job === undefined) throw new Error(`${first.jobId} is not waiting`);
      const lease = leaseOf(first, nowMs, started.size + 1);
      waiting.delete(first.jobId);
      queue.remove(jobId(first.jobId));
      noteRequest(book, first, undefined);
      noteLease(book, undefined, lease);
      free -= job.gpus;
      running.push({ job, endsAtMs: nowMs + job.runMs, lease });
      started.set(first.jobId, { job, startedAtMs: nowMs });
    }
  }
  return { started, book };
}
