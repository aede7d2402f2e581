/**
 * @file The compact form of packed ledgers, from `BOUNDED_RULES` on: rows that do not depend on each other, and lists that are written once.
 *
 * Because rows are independent, the size of the form is a sum that changes with each change of the ledger (size-account.ts).
 * Cost: O(ledger); a request takes about 50 bytes beside its job id, a lease about 100.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { SiteLink } from "../../domain/fleet/site-link.ts";
import { interner } from "../../lib/interner.ts";
import {
  packGang,
  packOwner,
  packProfile,
  unpackCompactRequest,
  unpackFormerRequest,
  unpackGang,
  unpackOwner,
  unpackProfile,
  type CompactRequestRow,
  type CompactTables,
  type FormerRequestRow,
  type GangTerms,
  type Owner,
  type SharedList,
} from "./codec-compact-rows.ts";
import { packStartEstimates, unpackStartEstimates } from "./codec-estimate-rows.ts";
import { packIntake, unpackIntake, type IntakeRows } from "./codec-intake-rows.ts";
import {
  packReservation,
  unpackLease,
  unpackReservation,
  type LeaseRow,
  type ReservationRow,
} from "./codec-lease-rows.ts";
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
import {
  gangKey,
  newShared,
  ownerKey,
  packGrant,
  packHost,
  unpackGrant,
  unpackHost,
  type HostRow,
  type OutboxRow,
  type Profile,
  type Tables,
} from "./codec-rows.ts";
import { reasonPlaces, unpackReasons } from "./codec-reason-rows.ts";
import { keepRows, leasePacker, requestPacker } from "./codec-kept-rows.ts";
import { queueName } from "../../domain/lease/queue-part.ts";
import { noteOrigin } from "./codec-origin.ts";
import { orphan } from "./codec-values.ts";
import type {
  DeadLetter,
  Ledger,
  LedgerRecovery,
  QueueHold,
  RepairNote,
  ServiceAccount,
} from "./ledger.ts";

/** Written and read by this file alone. */
export interface CompactRows extends PackedLedger {
  readonly nextToken: number;
  readonly nextArrival: number;
  readonly tables: CompactLists;
  readonly requests: readonly CompactRequestRow[];
  /** Pairs: index of the request, index of the reason. */
  readonly reasons: readonly number[];
  readonly leases: readonly LeaseRow[];
  readonly hosts: readonly HostRow[];
  readonly outbox: readonly OutboxRow[];
  readonly deadLetters: readonly DeadLetter[];
  readonly reservations: readonly ReservationRow[];
  readonly service?: ServiceRows;
  readonly evictions?: NoteRows;
  readonly runs?: NoteRows;
  readonly ownEstimates?: readonly number[];
  readonly latencyDemand?: readonly [gpus: number, ...slots: number[]];
  readonly models?: readonly ModelRow[];
  readonly links?: readonly SiteLink[];
  readonly intake?: IntakeRows;
  readonly recovery?: LedgerRecovery;
  readonly repairs?: readonly RepairNote[];
  readonly holds?: readonly QueueHold[];
  readonly isReasonRoomLow?: true;
}

type CompactLists = Omit<Tables, "profiles"> & CompactTables;

/** As fleets wrote it before requests had owners and gangs. */
type FormerRows = Omit<CompactRows, "tables" | "requests"> & {
  readonly tables: Omit<CompactLists, "owners" | "gangs">;
  readonly requests: readonly FormerRequestRow[];
};

/** Numbers, with texts of their own. */
export interface NoteRows {
  readonly texts: readonly string[];
  readonly notes: readonly number[];
}

type ServiceRows = readonly [
  atMs: number,
  ...flows: (readonly [key: string, receivedGpuSeconds: number, virtualSeconds: number])[],
];

export const isCompact = (packed: PackedLedger): packed is CompactRows | FormerRows =>
  "tables" in packed &&
  typeof packed.tables === "object" &&
  packed.tables !== null &&
  "lists" in packed.tables;

export function packCompact(ledger: Ledger): CompactRows {
  const known = hostIdsOf(ledger.shape);
  const lists = interner<SharedList>((list) => JSON.stringify(list));
  const owners = interner<Owner>(ownerKey);
  const gangs = interner<GangTerms>(gangKey);
  const shared = { ...newShared(known), lists, owners, gangs };
  const requests: CompactRequestRow[] = [];
  const places = new Map<JobId, number>();
  const packed = requestPacker(ledger, shared);
  for (const request of ledger.requests.values()) {
    places.set(request.jobId, requests.length);
    requests.push(packed(request));
  }
  const reasons: number[] = [];
  const placeOf = reasonPlaces(shared.reasons);
  for (const [job, reason] of ledger.reasons)
    reasons.push(places.get(job) ?? orphan(job), placeOf(job, reason));
  const leases = [...ledger.leases.values()].map(leasePacker(ledger, shared, known.length));
  const hosts = [...ledger.hosts].map(([host, status]) => packHost(host, status, shared));
  const outbox = [...ledger.outbox].map(([id, grant]) =>
    packGrant(ledger.leases.get(id), grant, shared),
  );
  const reservations = [...(ledger.reservations ?? NO_RESERVATIONS).values()].map((reservation) =>
    packReservation(reservation, shared),
  );
  // They refer to texts and lists, which are complete only then.
  const profiles = shared.profiles.values.map((profile) => packProfile(profile, shared));
  const ownerRows = owners.values.map((owner) => packOwner(owner, shared));
  const gangRows = gangs.values.map((gang) => packGang(gang, shared));
  return {
    applyVersion: ledger.applyVersion,
    shape: ledger.shape,
    ...(ledger.detailsHash !== undefined && { detailsHash: ledger.detailsHash }),
    nextToken: ledger.nextToken,
    nextArrival: ledger.nextArrival,
    tables: {
      hosts: shared.hosts.values.slice(known.length),
      texts: shared.texts.values,
      lists: lists.values,
      profiles,
      owners: ownerRows,
      gangs: gangRows,
      agents: shared.agents.values,
      reasons: shared.reasons.values,
    },
    requests,
    reasons,
    leases,
    hosts,
    outbox,
    reservations,
    deadLetters: ledger.deadLetters,
    ...sectionsOf(ledger, places),
  };
}

const NO_RESERVATIONS = new Map<JobId, Reservation>();

/** The parts that refer to no table; `size-account.ts` measures each whole. */
type Sections = Pick<
  CompactRows,
  | "service"
  | "evictions"
  | "runs"
  | "ownEstimates"
  | "latencyDemand"
  | "models"
  | "links"
  | "intake"
  | "recovery"
  | "repairs"
  | "holds"
  | "isReasonRoomLow"
>;

function sectionsOf(ledger: Ledger, places: ReadonlyMap<JobId, number>): Sections {
  const { service, evictions, runs, ownEstimates, latencyDemand, models, links } = ledger;
  const { intake, recovery, repairs, holds, isReasonRoomLow } = ledger;
  return {
    ...(service !== undefined && { service: packService(service) }),
    ...(evictions !== undefined && { evictions: withTexts(packNotes, evictions) }),
    ...(runs !== undefined && { runs: withTexts(packRuns, runs) }),
    ...(ownEstimates !== undefined && { ownEstimates: packStartEstimates(ownEstimates, places) }),
    ...(latencyDemand !== undefined && { latencyDemand: packDemand(latencyDemand) }),
    ...(models !== undefined && { models: packModels(models) }),
    ...(links !== undefined && { links: [...links.values()] }),
    ...(intake !== undefined && { intake: packIntake(intake) }),
    ...(recovery !== undefined && { recovery }),
    ...(repairs !== undefined && { repairs }),
    ...(holds !== undefined && { holds: [...holds.values()] }),
    ...(isReasonRoomLow && { isReasonRoomLow }),
  };
}

export const packService = ({ atMs, flows }: ServiceAccount): ServiceRows => [
  atMs,
  ...[...flows].map(
    ([key, { receivedGpuSeconds, virtualSeconds }]) =>
      [key, receivedGpuSeconds, virtualSeconds] as const,
  ),
];

export function withTexts<Note>(
  pack: (notes: readonly Note[], texts: ReturnType<typeof interner<string>>) => readonly number[],
  notes: readonly Note[],
): NoteRows {
  const texts = interner<string>((text) => text);
  const numbers = pack(notes, texts);
  return { texts: texts.values, notes: numbers };
}

export function unpackCompact(packed: CompactRows | FormerRows): Ledger {
  if (!isOwned(packed)) {
    const own = { ...packed.tables, profiles: profilesOf(packed) };
    const requests = packed.requests.map((row) => unpackFormerRequest(row, own));
    return unpackAround(packed, own.profiles, requests);
  }
  const { tables } = packed;
  const owners = tables.owners.map((row) => unpackOwner(row, tables));
  const gangs = tables.gangs.map((row) => unpackGang(row, tables));
  const own = { ...tables, owners, gangs };
  const requests = packed.requests.map((row) => unpackCompactRequest(row, own));
  const profiles = profilesOf(packed);
  const ledger = unpackAround(packed, profiles, requests);
  const leases = [...ledger.leases.values()];
  keepRows(packed.shape, {
    requests,
    requestRows: packed.requests,
    owners,
    gangs,
    leases,
    leaseRows: packed.leases,
    texts: tables.texts,
    profiles,
  });
  return noteOrigin(ledger, { packed, owners, gangs, profiles, leases });
}

const profilesOf = ({ tables }: CompactRows | FormerRows): readonly Profile[] =>
  tables.profiles.map((row) => unpackProfile(row, tables));

const isOwned = (packed: CompactRows | FormerRows): packed is CompactRows =>
  "owners" in packed.tables;

function unpackAround(
  packed: CompactRows | FormerRows,
  profiles: readonly Profile[],
  requests: readonly PendingRequest[],
): Ledger {
  const { applyVersion, shape, detailsHash, nextToken, nextArrival, tables } = packed;
  const hosts = [...hostIdsOf(shape), ...tables.hosts];
  const names: Tables = { ...tables, hosts, profiles };
  const leases = packed.leases.map((row) => unpackLease(row, undefined, names));
  const reservations = packed.reservations.map((row) => unpackReservation(row, names));
  return {
    applyVersion,
    shape,
    ...(detailsHash !== undefined && { detailsHash }),
    nextToken,
    nextArrival,
    requests: mapBy(requests, ({ jobId }) => jobId),
    reasons: unpackReasons(packed.reasons, requests, tables.reasons),
    leases: mapBy(leases, ({ id }) => id),
    hosts: new Map(packed.hosts.map((row) => unpackHost(row, names))),
    outbox: new Map(packed.outbox.map((row) => unpackGrant(row, names))),
    deadLetters: packed.deadLetters,
    ...(reservations.length > 0 && {
      reservations: new Map(reservations.map((reservation) => [reservation.jobId, reservation])),
    }),
    ...unpackSections(packed),
    ...(packed.ownEstimates !== undefined && {
      ownEstimates: unpackStartEstimates(packed.ownEstimates, requests),
    }),
  };
}

/** As `new Map` of pairs, without a pair for each of thousands. */
function mapBy<K, V>(values: readonly V[], keyOf: (value: V) => K): Map<K, V> {
  const map = new Map<K, V>();
  for (const value of values) map.set(keyOf(value), value);
  return map;
}

type UnpackedSections = Pick<
  Ledger,
  | "service"
  | "evictions"
  | "runs"
  | "latencyDemand"
  | "models"
  | "links"
  | "intake"
  | "recovery"
  | "repairs"
  | "holds"
  | "isReasonRoomLow"
>;

function unpackSections(packed: Sections): UnpackedSections {
  const { service, evictions, runs, latencyDemand, models, links } = packed;
  const { intake, recovery, repairs, holds, isReasonRoomLow } = packed;
  return {
    ...(service !== undefined && { service: unpackService(service) }),
    ...(evictions !== undefined && { evictions: unpackNotes(evictions.notes, evictions.texts) }),
    ...(latencyDemand !== undefined && { latencyDemand: unpackDemand(latencyDemand) }),
    ...(runs !== undefined && { runs: unpackRuns(runs.notes, runs.texts) }),
    ...(models !== undefined && { models: unpackModels(models) }),
    ...(links !== undefined && { links: unpackLinks(links) }),
    ...(intake !== undefined && { intake: unpackIntake(intake) }),
    ...(recovery !== undefined && { recovery }),
    ...(repairs !== undefined && { repairs }),
    ...(holds !== undefined && {
      holds: new Map(holds.map((hold) => [queueName(hold.queue), hold])),
    }),
    ...(isReasonRoomLow && { isReasonRoomLow }),
  };
}

const unpackService = ([atMs, ...flows]: ServiceRows): ServiceAccount => ({
  atMs,
  flows: new Map(
    flows.map(([key, receivedGpuSeconds, virtualSeconds]) => [
      key,
      { receivedGpuSeconds, virtualSeconds },
    ]),
  ),
});
