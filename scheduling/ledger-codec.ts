/**
 * @file The ledger as plain JSON, compact: what the fleet workflow carries over continue-as-new and hands to `decide`.
 *
 * Requests and leases are rows; what many of them share (names, profiles, agents, reasons) is written once
 * and named by its index; hosts are indices too, times are differences, run ids that are UUIDs take 22 characters.
 * `unpackLedger(packLedger(x))` equals `x` in every value and every order, also after a trip through JSON, for every ledger
 * that passes `checkLedger`. Cost: O(ledger); its size per request is about the length of its job id plus 60 bytes.
 */

import type { FleetShape } from "../domain/fleet.ts";
import { clusterId, tenantId, type HostId, type JobId } from "../domain/ids.ts";
import { JOB_CLASSES } from "../domain/job.ts";
import type { Lease, Reservation } from "../domain/lease.ts";
import type { PendingReason } from "../domain/pending.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { siteLinkKey, type SiteLink } from "../domain/site-link.ts";
import { ms } from "../domain/units.ts";
import {
  packLease,
  packReservation,
  unpackLease,
  unpackReservation,
  type LeaseRow,
  type ReservationRow,
} from "./lease-rows.ts";
import { packForeseen, unpackForeseen } from "./foreseen-rows.ts";
import {
  newShared,
  packGrant,
  packHost,
  packReason,
  packRequest,
  profileOf,
  unpackGrant,
  unpackHost,
  unpackReason,
  unpackRequest,
  type HostRow,
  type OutboxRow,
  type ReasonRow,
  type RequestRow,
  type Tables,
} from "./ledger-rows.ts";
import { entry, orphan, pairsOf } from "./packed-values.ts";
import {
  APPLY_VERSION,
  type DeadLetter,
  type DemandTrace,
  type EvictionNote,
  type Ledger,
  type RunNote,
  type ServiceFlow,
} from "./ledger.ts";

/** Written and read by this file alone, but for `shape` and `detailsHash`. */
export interface PackedLedger {
  readonly applyVersion: number;
  readonly shape: FleetShape;
  readonly detailsHash?: string;
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
  /** Written and read by foreseen-rows.ts. */
  readonly foreseen?: readonly number[];
  readonly latencyDemand?: readonly [gpus: number, ...slots: number[]];
  readonly models?: readonly (readonly [cluster: string, version: string, generation: number])[];
  readonly links?: readonly SiteLink[];
}

interface ServiceRows {
  readonly atMs: number;
  readonly flows: readonly (readonly [key: string, ServiceFlow])[];
}

export function packLedger(ledger: Ledger): PackedLedger {
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
  const hosts = [...ledger.hosts].map(([host, standing]) => packHost(host, standing, shared));
  const outbox = [...ledger.outbox].map(([id, grant]) =>
    packGrant(ledger.leases.get(id), grant, shared),
  );
  const reservations = [...(ledger.reservations ?? new Map<JobId, Reservation>()).values()].map(
    (reservation) => packReservation(reservation, shared),
  );
  const evictions = (ledger.evictions ?? []).flatMap(({ atMs, tenant, lostGpuSeconds }) => [
    atMs,
    shared.texts.indexOf(tenant),
    lostGpuSeconds,
  ]);
  const runs = (ledger.runs ?? []).flatMap((note, at, notes) => [
    shared.texts.indexOf(note.class),
    shared.texts.indexOf(note.tenant),
    note.gpus,
    note.endedAtMs - (notes[at - 1]?.endedAtMs ?? 0),
    note.grantedAtMs - note.submittedAtMs,
    note.endedAtMs - note.grantedAtMs,
    note.timeLimitMs ?? -1,
  ]);
  const foreseen = packForeseen(ledger.foreseen ?? [], places);
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
    ...(foreseen.length > 0 && { foreseen }),
    ...(ledger.latencyDemand && { latencyDemand: packDemand(ledger.latencyDemand) }),
    ...(models !== undefined && {
      models: [...models].map(([cluster, { version, generation }]) => [
        cluster,
        version,
        generation,
      ]),
    }),
    ...(links !== undefined && { links: [...links.values()] }),
  };
}

/** Refuses a ledger of other rules: this code would break its promises. */
export function unpackLedger(packed: PackedLedger): Ledger {
  const { applyVersion, shape, detailsHash, tables } = packed;
  if (applyVersion !== APPLY_VERSION) {
    throw new RangeError(
      `the ledger follows version ${applyVersion} of the rules, this program version ${APPLY_VERSION}; start a worker of the release that wrote it`,
    );
  }
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
    reasons: new Map(unpackReasons(packed.reasons, requests, tables.reasons)),
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
    ...(packed.evictions !== undefined && { evictions: unpackNotes(packed.evictions, names) }),
    ...(packed.latencyDemand && { latencyDemand: unpackDemand(packed.latencyDemand) }),
    ...(packed.runs !== undefined && { runs: unpackRuns(packed.runs, names) }),
    ...(packed.foreseen !== undefined && { foreseen: unpackForeseen(packed.foreseen, requests) }),
    ...(packed.models !== undefined && {
      models: new Map(
        packed.models.map(([cluster, version, generation]) => [
          clusterId(cluster),
          { version, generation },
        ]),
      ),
    }),
    ...(packed.links !== undefined && {
      links: new Map(packed.links.map((link) => [siteLinkKey(link.from, link.to), link])),
    }),
  };
}

const unpackNotes = (triples: readonly number[], { texts }: Tables): readonly EvictionNote[] =>
  Array.from({ length: triples.length / 3 }, (_, note) => ({
    atMs: entry(triples, 3 * note),
    tenant: tenantId(entry(texts, entry(triples, 3 * note + 1))),
    lostGpuSeconds: entry(triples, 3 * note + 2),
  }));

function unpackRuns(numbers: readonly number[], { texts }: Tables): readonly RunNote[] {
  const notes: RunNote[] = [];
  for (let at = 0; at < numbers.length; at += 7) {
    const className = entry(texts, entry(numbers, at));
    const endedAtMs = (notes.at(-1)?.endedAtMs ?? 0) + entry(numbers, at + 3);
    const grantedAtMs = endedAtMs - entry(numbers, at + 5);
    const timeLimitMs = entry(numbers, at + 6);
    notes.push({
      class: JOB_CLASSES.find((name) => name === className) ?? "training",
      tenant: tenantId(entry(texts, entry(numbers, at + 1))),
      gpus: entry(numbers, at + 2),
      submittedAtMs: grantedAtMs - entry(numbers, at + 4),
      grantedAtMs,
      endedAtMs,
      ...(timeLimitMs >= 0 && { timeLimitMs: ms(timeLimitMs) }),
    });
  }
  return notes;
}

/** Seconds and their greatest demand as differences. */
function packDemand({ gpus, slots }: DemandTrace): readonly [number, ...number[]] {
  let former = 0;
  const flat: number[] = [];
  for (const [slot, start, most] of slots) {
    flat.push(slot - former, start, most - start);
    former = slot;
  }
  return [gpus, ...flat];
}

function unpackDemand([gpus, ...flat]: readonly [number, ...number[]]): DemandTrace {
  const slots: [number, number, number][] = [];
  let slot = 0;
  for (let at = 0; at < flat.length; at += 3) {
    slot += entry(flat, at);
    slots.push([slot, entry(flat, at + 1), entry(flat, at + 1) + entry(flat, at + 2)]);
  }
  return { gpus, slots };
}

const hostIdsOf = ({ clusters }: FleetShape): readonly HostId[] => [
  ...new Set(clusters.flatMap(({ hosts }) => hosts.map(({ id }) => id))),
];

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

function unpackReasons(
  pairs: readonly number[],
  requests: readonly PendingRequest[],
  rows: readonly ReasonRow[],
): (readonly [JobId, PendingReason])[] {
  return pairsOf(pairs).map(([request, reason]) => {
    const { jobId: job } = entry(requests, request);
    return [job, unpackReason(entry(rows, reason), job)];
  });
}
