/**
 * @file The account of holdings and demand (holdings.ts), kept up to date change by change instead of computed from the whole ledger.
 *
 * A job's part in the account depends on its request, its lease and its reservation together, so a change of any of them marks the job.
 * Before the account is read, the former part of each marked job is subtracted and the present one added. Keys whose count is zero are
 * dropped, as the account of the whole ledger has none. The law: at any time equal to `openHoldings` of the same ledger.
 * A new reason marks its job too. Cost: O(changed jobs) a reading.
 */

import type { JobId, LeaseId } from "../../domain/values/ids.ts";
import {
  gpuCountOf,
  popCount,
  type HostGpus,
  type Lease,
  type Reservation,
} from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { FleetIndex } from "../ledger/rules/fleet-index.ts";
import { isUnstartable, quotaKeyOf, waitingKey, wantedGpus, type Holdings } from "./holdings.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { classFlow, flowWeights, tenantFlow, type FlowWeights } from "../ledger/rules/flow.ts";

/** Changes by `noteJob`, `noteJobLease` and `holdingsNow` alone. */
export interface HoldingsBook {
  readonly index: FleetIndex;
  readonly weightOf: FlowWeights;
  readonly held: Map<string, number>;
  readonly demand: Map<string, number>;
  readonly waiting: Map<string, number>;
  readonly quota: Map<string, number>;
  readonly leases: Map<JobId, Map<LeaseId, Lease>>;
  /** As each job was when it was counted. */
  readonly counted: Map<JobId, JobHolding>;
  readonly changed: Set<JobId>;
}

interface JobHolding {
  readonly request: PendingRequest | undefined;
  readonly leases: readonly Lease[];
  readonly reservation: Reservation | undefined;
  /** Its request can never start here, so it demands nothing. */
  readonly isUnstartable: boolean;
}

export function openHoldingsBook(ledger: Ledger, index: FleetIndex): HoldingsBook {
  const { shape, leases, requests, reservations } = ledger;
  const book: HoldingsBook = {
    index,
    weightOf: flowWeights(shape.tenants, shape.policy),
    held: new Map(),
    demand: new Map(),
    waiting: new Map(),
    quota: new Map(),
    leases: new Map(),
    counted: new Map(),
    changed: new Set(),
  };
  for (const lease of leases.values()) noteJobLease(book, undefined, lease);
  for (const job of requests.keys()) noteJob(book, job);
  for (const job of reservations?.keys() ?? []) noteJob(book, job);
  return book;
}

/** Its request, its reservation or its reason has changed. */
export const noteJob = ({ changed }: HoldingsBook, job: JobId): Set<JobId> => changed.add(job);

export function noteJobLease(
  { leases, changed }: HoldingsBook,
  before: Lease | undefined,
  after: Lease | undefined,
): void {
  const lease = after ?? before;
  if (lease === undefined) return;
  const { id, jobId } = lease;
  changed.add(jobId);
  const own = leases.get(jobId);
  if (after === undefined) {
    own?.delete(id);
    if (own?.size === 0) leases.delete(jobId);
  } else if (own === undefined) leases.set(jobId, new Map([[id, after]]));
  else own.set(id, after);
}

/** Of the ledger that the book follows; `supplyGpus`: GPUs of the fleet that may be used now. */
export function holdingsNow(
  book: HoldingsBook,
  { requests, reservations, reasons }: Ledger,
  supplyGpus: number,
): Holdings {
  const { changed, counted, leases, index, weightOf } = book;
  for (const job of changed) {
    const before = counted.get(job);
    if (before !== undefined) count(book, before, -1);
    const now: JobHolding = {
      request: requests.get(job),
      leases: [...(leases.get(job)?.values() ?? [])],
      reservation: reservations?.get(job),
      isUnstartable: isUnstartable(reasons.get(job)),
    };
    if (now.request === undefined && now.leases.length === 0 && now.reservation === undefined)
      counted.delete(job);
    else {
      counted.set(job, now);
      count(book, now, 1);
    }
  }
  changed.clear();
  const { held, demand, waiting, quota } = book;
  const changing = { held: new Map(held), quota: new Map(quota) };
  return { supplyGpus, weightOf, index, demand, waiting, ...changing };
}

function count(
  book: HoldingsBook,
  { request, leases, reservation, isUnstartable: demandsNothing }: JobHolding,
  sign: 1 | -1,
): void {
  let stopping: Lease | undefined;
  for (const lease of leases) {
    if (lease.state === "vacating") continue;
    add(book.demand, tenantFlow(lease), sign * gpuCountOf(lease.gpus));
    if (lease.eviction === undefined) hold(book, lease, { gpus: lease.gpus, sign });
    else stopping = lease;
  }
  if (request !== undefined && stopping === undefined && !demandsNothing) {
    const more = sign * wantedGpus(request);
    add(book.demand, tenantFlow(request), more);
    add(book.waiting, waitingKey(tenantFlow(request), request.seq), more);
  }
  const holder = request ?? stopping;
  if (reservation !== undefined && reservation.kind !== "backfill" && holder !== undefined)
    hold(book, holder, { gpus: reservation.gpus, sign });
}

function hold(
  { held, quota, index }: HoldingsBook,
  holder: Pick<PendingRequest, "class" | "tenant">,
  { gpus, sign }: { readonly gpus: readonly HostGpus[]; readonly sign: 1 | -1 },
): void {
  const more = sign * gpuCountOf(gpus);
  add(held, classFlow(holder), more);
  add(held, tenantFlow(holder), more);
  if (!index.tenants.has(holder.tenant)) return;
  for (const { host, mask } of gpus) {
    const key = quotaKeyOf(index, holder.tenant, host);
    if (key !== undefined) add(quota, key.name, sign * popCount(mask));
  }
}

function add(counts: Map<string, number>, key: string, more: number): void {
  const now = (counts.get(key) ?? 0) + more;
  if (now === 0) counts.delete(key);
  else counts.set(key, now);
}
