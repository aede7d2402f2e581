/** @file A ledger as the rows that browsers get (`page/wire.ts`). Pure. A row is made again only when its source is another object. */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type { HostGpus, Lease, Reservation } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type {
  FlowRow,
  GpuMask,
  HostRow,
  LeaseRow,
  ReasonRow,
  RequestRow,
  ReservationRow,
} from "../../page/wire.ts";
import type { ClassLine, QueueOrder, TenantLine } from "../../scheduling/explain/queue-order.ts";
import type { HostStatus, Ledger } from "../../scheduling/ledger/ledger.ts";
import { hostConditionOf } from "../../scheduling/ledger/rules/grant-check.ts";
import { takenGpus } from "../../scheduling/ledger/rules/usage.ts";

export const masksOf = (gpus: readonly HostGpus[]): readonly GpuMask[] =>
  gpus.map(({ host, mask }) => [host, mask] as const);

/** `predictedGbs`: as far as the console has seen the grant. */
export function leaseRow(lease: Lease, predictedGbs?: number): LeaseRow {
  const {
    jobId: job,
    tenant,
    state,
    grantedAtMs: sinceMs,
    eviction,
    terms,
    checkpointedAtMs,
  } = lease;
  return {
    job,
    class: lease.class,
    tenant,
    state: eviction !== undefined && state !== "vacating" ? "evicted" : state,
    gpus: masksOf(takenGpus(lease)),
    sinceMs,
    ...(eviction && { forJob: eviction.forJob, lostGpuSeconds: eviction.lostGpuSeconds }),
    ...(checkpointedAtMs !== undefined && { checkpointedAtMs }),
    ...(terms && { wanted: terms.gang.gpus }),
    ...(predictedGbs !== undefined && { predictedGbs }),
  };
}

export const reservationRow = ({ gpus, kind, sinceMs }: Reservation): ReservationRow => {
  return { gpus: masksOf(gpus), kind, sinceMs };
};

export function requestRow(request: PendingRequest): RequestRow {
  const { name, tenant, gang, slots, priority, submittedAtMs } = request;
  return {
    name,
    class: request.class,
    tenant,
    gpus: gang.gpus,
    ...(slots !== undefined && { slots }),
    priority,
    submittedAtMs,
  };
}

export const reasonRow = ({ code, message, numbers, holders }: PendingReason): ReasonRow => {
  return { code, message, numbers, holders };
};

export function hostRows(
  { clusters }: FleetShape,
  hosts: ReadonlyMap<string, HostStatus>,
): ReadonlyMap<string, HostRow> {
  const rows = new Map<string, HostRow>();
  for (const cluster of clusters)
    for (const host of cluster.hosts) {
      const status = hosts.get(host.id);
      const condition = hostConditionOf(status);
      const { drainReason, silentSinceMs, gpuDrains } = status ?? {};
      rows.set(host.id, {
        cluster: cluster.id,
        site: cluster.site,
        rack: host.rack ?? "",
        gpuType: host.gpuType,
        gpus: host.gpuCount,
        at: rows.size,
        ...(condition !== undefined && { condition }),
        ...(drainReason !== undefined && { drainReason }),
        ...(silentSinceMs !== undefined && { silentSinceMs }),
        ...(gpuDrains !== undefined && {
          gpuDrains: gpuDrains.map(({ mask, reason }) => ({ mask, reason })),
        }),
      });
    }
  return rows;
}

export function flowRows({ classes }: Pick<QueueOrder, "classes">): ReadonlyMap<string, FlowRow> {
  const rows = new Map<string, FlowRow>();
  for (const one of classes) {
    rows.set(one.class, flowRow(one.class, one));
    for (const tenant of one.tenants)
      rows.set(`${one.class} ${tenant.tenant}`, {
        ...flowRow(one.class, tenant),
        tenant: tenant.tenant,
      });
  }
  return rows;
}

const flowRow = (name: string, line: ClassLine | TenantLine): FlowRow => ({
  class: name,
  weight: line.weight,
  waiting: line.waiting,
  runningGpus: line.runningGpus,
  dueGpus: line.dueGpus,
  deficitGpuHours: Math.round((line.deficitGpuSeconds / 3_600) * 100) / 100,
});

/** All of a ledger that changes event by event, by table and key, with the object that each row is made of. */
export interface Sources {
  readonly leases: ReadonlyMap<string, Lease>;
  readonly reservations: ReadonlyMap<string, Reservation>;
  readonly requests: ReadonlyMap<string, PendingRequest>;
}

const NO_RESERVATIONS: ReadonlyMap<string, Reservation> = new Map();

export const sourcesOf = ({ leases, requests, reservations }: Ledger): Sources => {
  return { leases, requests, reservations: reservations ?? NO_RESERVATIONS };
};

/** Whether the job waits or holds something. */
export function hasJob(ledger: Ledger, job: string): boolean {
  const requests: ReadonlyMap<string, unknown> = ledger.requests;
  return requests.has(job) || [...ledger.leases.values()].some(({ jobId }) => jobId === job);
}
