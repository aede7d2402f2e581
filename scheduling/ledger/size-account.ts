/**
 * @file The size of a ledger's compact form: how many bytes it has as JSON, kept up with every change.
 *
 * Rows do not depend on each other, so their sizes add up; what many rows share counts once for as long as any row refers to it. An index
 * counts as long as the longest index of its table, everything else exactly, so the size is never below the true one and only a few per cent
 * above it. The account of a ledger is the same whether it was kept from event to event or opened on the unpacked ledger.
 * Cost: O(ledger) to open, O(row) a change. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { token, type HostId, type JobId } from "../../domain/values/ids.ts";
import type { Lease, Reservation } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import {
  packCompactRequest,
  packGang,
  packOwner,
  packProfile,
  termsOf,
  type GangTerms,
  type Owner,
  type SharedList,
} from "./codec-compact-rows.ts";
import { packService, withTexts, type NoteRows } from "./codec-compact.ts";
import { packStartEstimates } from "./codec-estimate-rows.ts";
import { packIntake } from "./codec-intake-rows.ts";
import { packLease, packReservation } from "./codec-lease-rows.ts";
import type { Origin } from "./codec-origin.ts";
import { hostIdsOf, packDemand, packModels, packNotes, packRuns } from "./codec-notes.ts";
import {
  gangKey,
  ownerKey,
  packGrant,
  packHost,
  packReason,
  profileKey,
  reasonKey,
  type AgentRow,
  type Profile,
  type ReasonRow,
  type Shared,
} from "./codec-rows.ts";
import type { HostStatus, Ledger, OutboxGrant } from "./ledger.ts";
import { classFlow, tenantFlow } from "./rules/flow.ts";
import {
  COMMA,
  counter,
  digitsOf,
  jsonBytes,
  numbersBytes,
  sizeTable,
  type SizeTable,
} from "./size-table.ts";

/** Bytes of the parts that change row by row. Changes by the functions of this file alone. */
export interface SizeAccount {
  /** Rows with their commas, by part. */
  readonly rows: Record<RowPart, number>;
  /** What leases may add to their rows before they end, which nobody can refuse. */
  growth: number;
  /** How many requests wait, for the digits of their places. */
  requests: number;
  readonly tables: SizeTables;
  /** What the flows of requests and running leases need once they have been served. */
  readonly flows: SizeTable<string>;
  /** Of the parts that are measured whole, as they were last measured. */
  readonly sections: Record<SectionName, number>;
  /** The values that were. */
  readonly measured: Map<SectionName, unknown>;
  /** 1 while rows come, -1 while they go. */
  sign: 1 | -1;
}

export type RowPart = "requests" | "reasons" | "leases" | "hosts" | "outbox" | "reservations";

/** Parts of the compact form that refer to no table. */
export type SectionName =
  | "shape"
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
  | "deadLetters";

interface SizeTables extends Shared {
  readonly hosts: SizeTable<HostId>;
  readonly texts: SizeTable<string>;
  readonly lists: SizeTable<SharedList>;
  readonly profiles: SizeTable<Profile>;
  readonly owners: SizeTable<Owner>;
  readonly gangs: SizeTable<GangTerms>;
  readonly agents: SizeTable<AgentRow>;
  readonly reasons: SizeTable<ReasonRow>;
}

function emptyAccount(shape: FleetShape): SizeAccount {
  const signOf = (): 1 | -1 => account.sign;
  const plain = { rowOf: (value: unknown) => value, signOf };
  const tables: SizeTables = {
    hosts: sizeTable<HostId>({
      ...plain,
      keyOf: (host) => host,
      known: new Set(hostIdsOf(shape)),
    }),
    texts: sizeTable<string>({ ...plain, keyOf: (text) => text }),
    lists: sizeTable<SharedList>({ ...plain, keyOf: (list) => JSON.stringify(list) }),
    agents: sizeTable<AgentRow>({ ...plain, keyOf: (agent) => JSON.stringify(agent) }),
    reasons: sizeTable<ReasonRow>({ ...plain, keyOf: reasonKey }),
    profiles: sizeTable<Profile>({
      keyOf: profileKey,
      rowOf: (profile) => packProfile(profile, tables),
      signOf,
    }),
    owners: sizeTable<Owner>({
      keyOf: ownerKey,
      rowOf: (owner) => packOwner(owner, tables),
      signOf,
      indexes: "none",
    }),
    gangs: sizeTable<GangTerms>({
      keyOf: gangKey,
      rowOf: (gang) => packGang(gang, tables),
      signOf,
      indexes: "none",
    }),
  };
  const account: SizeAccount = {
    rows: { requests: 0, reasons: 0, leases: 0, hosts: 0, outbox: 0, reservations: 0 },
    growth: 0,
    requests: 0,
    tables,
    flows: sizeTable<string>({
      ...plain,
      keyOf: (flow) => flow,
      rowOf: flowRow,
      indexes: "none",
    }),
    sections: {
      shape: jsonBytes(shape),
      service: 0,
      evictions: 0,
      runs: 0,
      ownEstimates: 0,
      latencyDemand: 0,
      models: 0,
      links: 0,
      intake: 0,
      recovery: 0,
      repairs: 0,
      deadLetters: 0,
    },
    measured: new Map(),
    sign: 1,
  };
  return account;
}

/** With numbers as long as any. */
const flowRow = (flow: string): unknown => [flow, LONGEST_NUMBER, LONGEST_NUMBER];
const LONGEST_NUMBER = -1.2345678901234567e-300;

function sizeFlows(account: SizeAccount, of: Change<PendingRequest | Lease>): void {
  const { before, after } = of;
  for (const [row, sign] of [
    [after, 1],
    [before, -1],
  ] as const) {
    if (row === undefined || ("state" in row && row.state === "vacating")) continue;
    account.sign = sign;
    account.flows.indexOf(classFlow(row));
    account.flows.indexOf(tenantFlow(row));
  }
}

/** Counts the row in, or out. */
function count(
  account: SizeAccount,
  { part, sign }: { readonly part: RowPart; readonly sign: 1 | -1 },
  pack: (tables: SizeTables) => unknown,
): void {
  account.sign = sign;
  account.rows[part] += sign * (jsonBytes(pack(account.tables)) + COMMA);
}

/** What a row was and what it is: absent before it came, and after it has gone. */
export interface Change<T> {
  readonly before?: T | undefined;
  readonly after?: T | undefined;
}

function change<T>(
  account: SizeAccount,
  part: RowPart,
  { before, after, pack }: Change<T> & { readonly pack: (row: T, tables: SizeTables) => unknown },
): void {
  // In before out, so that what both share is not taken down in between.
  if (after !== undefined) count(account, { part, sign: 1 }, (tables) => pack(after, tables));
  if (before !== undefined) count(account, { part, sign: -1 }, (tables) => pack(before, tables));
}

export function sizeRequest(account: SizeAccount, of: Change<PendingRequest>): void {
  change(account, "requests", { ...of, pack: packCompactRequest });
  sizeFlows(account, of);
  account.requests += Number(of.after !== undefined) - Number(of.before !== undefined);
}

export function sizeReason(account: SizeAccount, job: JobId, of: Change<PendingReason>): void {
  // The pair of a place and an index, without brackets of its own.
  const pack = (reason: PendingReason, { reasons }: SizeTables): unknown =>
    reasons.indexOf(packReason(job, reason));
  change(account, "reasons", { ...of, pack });
}

export function sizeLease(account: SizeAccount, of: Change<Lease>): void {
  change(account, "leases", {
    ...of,
    pack: (lease, tables) => packLease(lease, undefined, tables),
  });
  sizeFlows(account, of);
  account.growth += growthOf(of.after) - growthOf(of.before);
}

/** A host of the list that a vacating lease waits for, and the rest of such a row: a checkpoint, the delivery of an eviction. */
const VACATING_HOST_BYTES = 6;
const ENDING_BYTES = 32;

const growthOf = (lease: Lease | undefined): number =>
  lease === undefined || lease.state === "vacating"
    ? 0
    : ENDING_BYTES + VACATING_HOST_BYTES * lease.gpus.length;

export function sizeHost(account: SizeAccount, host: HostId, of: Change<HostStatus>): void {
  change(account, "hosts", { ...of, pack: (status, tables) => packHost(host, status, tables) });
}

export function sizeGrant(
  account: SizeAccount,
  lease: Pick<Lease, "token">,
  of: Change<OutboxGrant>,
): void {
  change(account, "outbox", { ...of, pack: (grant, tables) => packGrant(lease, grant, tables) });
}

export function sizeReservation(account: SizeAccount, of: Change<Reservation>): void {
  change(account, "reservations", { ...of, pack: packReservation });
}

/** `origin`: the packed form of its requests and reasons, if it was just unpacked. */
export function openSize(ledger: Pick<Ledger, keyof RowMaps>, origin?: Origin): SizeAccount {
  const { shape, requests, reasons, leases, hosts, outbox, reservations } = ledger;
  const account = emptyAccount(shape);
  if (origin === undefined) {
    for (const after of requests.values()) sizeRequest(account, { after });
    for (const [job, after] of reasons) sizeReason(account, job, { after });
  } else countPacked(account, origin);
  for (const after of leases.values()) sizeLease(account, { after });
  for (const [host, after] of hosts) sizeHost(account, host, { after });
  for (const [id, after] of outbox) sizeGrant(account, leases.get(id) ?? NO_LEASE, { after });
  for (const after of reservations?.values() ?? []) sizeReservation(account, { after });
  return account;
}

/** The same as counting requests and reasons one by one; each value that many of them share is looked up once. */
function countPacked(account: SizeAccount, { packed, owners, gangs }: Origin): void {
  const { rows, tables, flows } = account;
  const { texts, lists, reasons } = packed.tables;
  const used = { owners: counter(), gangs: counter() };
  const usedBeside = { texts: counter(), lists: counter(), reasons: counter() };
  for (const row of packed.requests) {
    const [, name = NO_INDEX, more] = row;
    const { owner, gang } = termsOf(row);
    used.owners.note(owner);
    used.gangs.note(gang);
    if (name >= 0) usedBeside.texts.note(name);
    const avoided = more?.[AVOIDED_HOSTS] ?? NO_INDEX;
    if (avoided >= 0) usedBeside.lists.note(avoided);
    rows.requests += jsonBytes(row) + COMMA - moreDigits(name) - moreDigits(avoided);
  }
  account.requests += packed.requests.length;
  packed.reasons.forEach((index, at) => {
    if (at % 2 === 0) return;
    usedBeside.reasons.note(index);
    rows.reasons += 1 + COMMA;
  });
  usedBeside.reasons.each(reasons, tables.reasons.refer);
  usedBeside.texts.each(texts, tables.texts.refer);
  usedBeside.lists.each(lists, tables.lists.refer);
  used.gangs.each(gangs, tables.gangs.refer);
  used.owners.each(owners, (owner, times) => {
    tables.owners.refer(owner, times);
    flows.refer(classFlow(owner), times);
    flows.refer(tenantFlow(owner), times);
  });
}

/** Place in the last part of a request's row. */
const AVOIDED_HOSTS = 2;
const NO_INDEX = -1;

/** Of an index beyond its first; each counts as one digit in its row. */
const moreDigits = (index: number): number => (index < 0 ? 0 : digitsOf(index) - 1);

type RowMaps = Pick<
  Ledger,
  "shape" | "requests" | "reasons" | "leases" | "hosts" | "outbox" | "reservations"
>;

const NO_LEASE: Pick<Lease, "token"> = { token: token(0) };

/** All rows and tables but the reasons, which are advice. */
export function rowBytes({ rows, tables }: SizeAccount): number {
  const { hosts, texts, lists, profiles, owners, gangs, agents } = tables;
  const { requests, leases, hosts: statuses, outbox, reservations } = rows;
  return (
    [requests, leases, statuses, outbox, reservations].reduce((sum, part) => sum + part, 0) +
    [hosts, texts, lists, profiles, owners, gangs, agents].reduce(
      (sum, table) => sum + table.bytes(),
      0,
    )
  );
}

/** Of the reasons: so many pairs of a place and an index. */
export const reasonBytes = (account: SizeAccount, pairs: number): number =>
  account.rows.reasons +
  account.tables.reasons.bytes() +
  pairs * (digitsOf(account.requests - 1) + COMMA);

type Sectioned = Pick<Ledger, "requests" | Exclude<SectionName, "shape">>;

/**
 * Measures the parts that have no rows of their own, where they are not the very values that were measured last. `isOpen`: they change in
 * place.
 */
export function measureSections(account: SizeAccount, ledger: Sectioned, isOpen: boolean): void {
  const { service, evictions, runs, ownEstimates, latencyDemand, models, links, intake } = ledger;
  const size = <T>(name: SectionName, value: T | undefined, bytesOf: (of: T) => number): void => {
    if (!isOpen && account.measured.get(name) === value) return;
    account.measured.set(name, value);
    account.sections[name] = value === undefined ? 0 : bytesOf(value);
  };
  const measure = <T>(name: SectionName, value: T | undefined, pack: (of: T) => unknown): void =>
    size(name, value, (each) => jsonBytes(pack(each)));
  measure("service", service, packService);
  size("evictions", evictions, (notes) => noteBytes(withTexts(packNotes, notes)));
  size("runs", runs, (notes) => noteBytes(withTexts(packRuns, notes)));
  measure("ownEstimates", ownEstimates, (kept) => packStartEstimates(kept, LAST_PLACE));
  measure("latencyDemand", latencyDemand, packDemand);
  measure("models", models, packModels);
  measure("links", links, (found) => [...found.values()]);
  measure("intake", intake, packIntake);
  measure("recovery", ledger.recovery, (kept) => kept);
  measure("repairs", ledger.repairs, (notes) => notes);
  measure("deadLetters", ledger.deadLetters, (letters) => letters);
}

const noteBytes = ({ texts, notes }: NoteRows): number =>
  jsonBytes({ texts, notes: [] }) - jsonBytes([]) + numbersBytes(notes);

/** No ledger has more requests. */
const LAST_PLACE = { get: () => 99_999 };

/** An upper bound of the ledger's compact form as JSON. */
export function ledgerBytes(ledger: Ledger): number {
  const account = openSize(ledger);
  measureSections(account, ledger, false);
  return boundOf(account, ledger);
}

/** The names of all parts, with the numbers at their longest. */
const FRAME_BYTES = 492;

/** Of a measured account. */
export const boundOf = (
  account: SizeAccount,
  { reasons, detailsHash }: Pick<Ledger, "reasons"> & { readonly detailsHash?: string | undefined },
): number =>
  FRAME_BYTES +
  (detailsHash === undefined ? 0 : jsonBytes(detailsHash)) +
  rowBytes(account) +
  reasonBytes(account, reasons.size) +
  Object.values(account.sections).reduce((sum, bytes) => sum + bytes, 0);
