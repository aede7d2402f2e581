/**
 * @file Packs the ledger as compact plain JSON: the fleet workflow carries it over continue-as-new and passes it to `decide`.
 *
 * Requests and leases are rows; values that many of them share (names, profiles, agents, reasons) are written once and referred to by
 * index; hosts are indices too, times are differences, and run ids that are UUIDs take 22 characters. `unpackLedger(packLedger(x))` equals
 * `x` in every value and every order, also after a trip through JSON, for every ledger that passes `checkLedger`. From `BOUNDED_RULES` on
 * ledgers have the compact form (codec-compact.ts), before the one in this file.
 * Cost: O(ledger); a request takes about 60 bytes beside its job id.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { Lease, Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { SiteLink } from "../../domain/fleet/site-link.ts";
import {
  packLease,
  packReservation,
  unpackLease,
  unpackReservation,
  type LeaseRow,
  type ReservationRow,
} from "./codec-lease-rows.ts";
import { packStartEstimates, unpackStartEstimates } from "./codec-estimate-rows.ts";
import {
  newShared,
  packGrant,
  packHost,
  packRequest,
  profileOf,
  unpackGrant,
  unpackHost,
  unpackRequest,
  type HostRow,
  type OutboxRow,
  type RequestRow,
  type Tables,
} from "./codec-rows.ts";
import { packReason, unpackReasons } from "./codec-reason-rows.ts";
import { isCompact, packCompact, unpackCompact } from "./codec-compact.ts";
import {
  hostIdsOf,
  packDemand,
  packModels,
  packNotes,
  packRuns,
  unpackDemand,
  unpackLinks,
  unpackModels,
  unpackNotes,
  unpackRuns,
  type ModelRow,
} from "./codec-notes.ts";
import { orphan } from "./codec-values.ts";
import {
  isBounded,
  NEWEST_RULES,
  OLDEST_RULES,
  type DeadLetter,
  type Ledger,
  type ServiceFlow,
} from "./ledger.ts";

/** The rows of a packed ledger: written and read by this file alone. */
interface LedgerRows extends PackedLedger {
  readonly nextToken: number;
  readonly nextArrival: number;
  readonly tables: Tables;
  readonly requests: readonly RequestRow[];
  /** Pairs: index of the request, index of the reason. */
  readonly reasons: readonly number[];
  readonly leases: readonly LeaseRow[];
  readonly hosts: readonly HostRow[];
  readonly outbox: readonly OutboxRow[];
  readonly deadLetters: readonly DeadLetter[];
  readonly reservations?: readonly ReservationRow[];
  readonly service?: ServiceRows;
  /** Triples: time, index of the tenant's text, GPU-seconds lost. */
  readonly evictions?: readonly number[];
  /** Seven numbers each: class, tenant (indices of texts), GPUs, end after the former end, wait, run, time limit or -1. */
  readonly runs?: readonly number[];
  /** Written and read by codec-estimate-rows.ts. */
  readonly ownEstimates?: readonly number[];
  readonly latencyDemand?: readonly [gpus: number, ...slots: number[]];
  readonly models?: readonly ModelRow[];
  readonly links?: readonly SiteLink[];
}

interface ServiceRows {
  readonly atMs: number;
  readonly flows: readonly (readonly [key: string, ServiceFlow])[];
}

export const packLedger = (ledger: Ledger): PackedLedger =>
  isBounded(ledger) ? packCompact(ledger) : rowsOf(ledger);

function rowsOf(ledger: Ledger): LedgerRows {
  const known = hostIdsOf(ledger.shape);
  const shared = newShared(known);
  const requests = inOrder([...ledger.requests.values()], (request, former) =>
    packRequest(request, former, shared),
  );
  const places = new Map([...ledger.requests.keys()].map((job, at) => [job, at]));
  const reasons = [...ledger.reasons].flatMap(([job, reason]) => [
    places.get(job) ?? orphan(job),
    shared.reasons.indexOf(packReason(job, reason)),
  ]);
  const leases = inOrder([...ledger.leases.values()], (lease, former) =>
    packLease(lease, former, shared),
  );
  const hosts = [...ledger.hosts].map(([host, status]) => packHost(host, status, shared));
  const outbox = [...ledger.outbox].map(([id, grant]) =>
    packGrant(ledger.leases.get(id), grant, shared),
  );
  const reservations = [...(ledger.reservations ?? new Map<JobId, Reservation>()).values()].map(
    (reservation) => packReservation(reservation, shared),
  );
  const evictions = packNotes(ledger.evictions ?? [], shared.texts);
  const runs = packRuns(ledger.runs ?? [], shared.texts);
  const ownEstimates = packStartEstimates(ledger.ownEstimates ?? [], places);
  const { service, models, links } = ledger;
  return {
    applyVersion: ledger.applyVersion,
    shape: ledger.shape,
    ...(ledger.detailsHash !== undefined && { detailsHash: ledger.detailsHash }),
    nextToken: ledger.nextToken,
    nextArrival: ledger.nextArrival,
    tables: {
      hosts: shared.hosts.values.slice(known.length),
      texts: shared.texts.values,
      profiles: shared.profiles.values.map(profileOf),
      agents: shared.agents.values,
      reasons: shared.reasons.values,
    },
    requests,
    reasons,
    leases,
    hosts,
    outbox,
    deadLetters: ledger.deadLetters,
    ...(reservations.length > 0 && { reservations }),
    ...(service !== undefined && { service: { atMs: service.atMs, flows: [...service.flows] } }),
    ...(evictions.length > 0 && { evictions }),
    ...(runs.length > 0 && { runs }),
    ...(ownEstimates.length > 0 && { ownEstimates }),
    ...(ledger.latencyDemand && { latencyDemand: packDemand(ledger.latencyDemand) }),
    ...(models !== undefined && { models: packModels(models) }),
    ...(links !== undefined && { links: [...links.values()] }),
  };
}

/** Refuses a ledger of other rules: this code would break its promises. */
export function unpackLedger(of: PackedLedger): Ledger {
  const packed = of as LedgerRows; // packLedger alone makes one
  const { applyVersion, shape, detailsHash, tables } = packed;
  if (!(applyVersion >= OLDEST_RULES && applyVersion <= NEWEST_RULES)) {
    throw new RangeError(
      `the ledger follows version ${applyVersion} of the rules, this program versions ${OLDEST_RULES} to ${NEWEST_RULES}; start a worker of the release that wrote it`,
    );
  }
  if (isCompact(packed)) return unpackCompact(packed);
  const names: Tables = { ...tables, hosts: [...hostIdsOf(shape), ...tables.hosts] };
  const requests = unpackInOrder(packed.requests, (row, former?: PendingRequest) =>
    unpackRequest(row, former, names),
  );
  const leases = unpackInOrder(packed.leases, (row, former?: Lease) =>
    unpackLease(row, former, names),
  );
  return {
    applyVersion,
    shape,
    ...(detailsHash !== undefined && { detailsHash }),
    nextToken: packed.nextToken,
    nextArrival: packed.nextArrival,
    requests: new Map(requests.map((request) => [request.jobId, request])),
    reasons: unpackReasons(packed.reasons, requests, tables.reasons),
    leases: new Map(leases.map((lease) => [lease.id, lease])),
    hosts: new Map(packed.hosts.map((row) => unpackHost(row, names))),
    outbox: new Map(packed.outbox.map((row) => unpackGrant(row, names))),
    deadLetters: packed.deadLetters,
    ...(packed.reservations !== undefined && {
      reservations: new Map(
        packed.reservations.map((row) => {
          const reservation = unpackReservation(row, names);
          return [reservation.jobId, reservation];
        }),
      ),
    }),
    ...(packed.service !== undefined && {
      service: { atMs: packed.service.atMs, flows: new Map(packed.service.flows) },
    }),
    ...(packed.evictions !== undefined && {
      evictions: unpackNotes(packed.evictions, names.texts),
    }),
    ...(packed.latencyDemand && { latencyDemand: unpackDemand(packed.latencyDemand) }),
    ...(packed.runs !== undefined && { runs: unpackRuns(packed.runs, names.texts) }),
    ...(packed.ownEstimates !== undefined && {
      ownEstimates: unpackStartEstimates(packed.ownEstimates, requests),
    }),
    ...(packed.models !== undefined && { models: unpackModels(packed.models) }),
    ...(packed.links !== undefined && { links: unpackLinks(packed.links) }),
  };
}

/** Rows are written as differences to the one before. */
const inOrder = <T, Row>(
  values: readonly T[],
  pack: (value: T, former: T | undefined) => Row,
): readonly Row[] => values.map((value, at) => pack(value, values[at - 1]));

function unpackInOrder<T, Row>(
  rows: readonly Row[],
  unpack: (row: Row, former?: T) => T,
): readonly T[] {
  const values: T[] = [];
  for (const row of rows) values.push(unpack(row, values.at(-1)));
  return values;
}
