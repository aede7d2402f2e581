/**
 * @file The size of a ledger's compact form: how many bytes it has as JSON, kept up with every change.
 *
 * Rows do not depend on each other, so their sizes add up; what many rows share counts once for as long as any row refers to it. An index
 * counts as long as the longest index of its table, everything else exactly, so the size is never below the true one and only a few per cent
 * above it. The account of a ledger is the same whether it was kept from event to event or opened on the unpacked ledger.
 * Cost: O(ledger) to open, O(row) a change. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { token, type HostId, type JobId } from "../../domain/values/ids.ts";
import type { Lease, Reservation } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { packCompactRequest } from "./codec-compact-rows.ts";
import { packService, withTexts, type NoteRows } from "./codec-compact.ts";
import { packStartEstimates } from "./codec-estimate-rows.ts";
import { packIntake } from "./codec-intake-rows.ts";
import { packLease, packReservation } from "./codec-lease-rows.ts";
import type { Origin } from "./codec-origin.ts";
import { packModels, packNotes } from "./codec-notes.ts";
import { packReason } from "./codec-reason-rows.ts";
import { packGrant, packHost } from "./codec-rows.ts";
import { entry } from "./codec-values.ts";
import type { HostStatus, Ledger, OutboxGrant } from "./ledger.ts";
import { classFlow, tenantFlow } from "./rules/flow.ts";
import { demandBytes, runsBytes } from "./size-notes.ts";
import { countPacked, leaseGrowth } from "./size-packed.ts";
import {
  emptyAccount,
  type RowPart,
  type SectionName,
  type SizeAccount,
  type SizeTables,
} from "./size-state.ts";
import { COMMA, digitsOf, jsonBytes, numbersBytes } from "./size-table.ts";

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

const growthOf = (lease: Lease | undefined): number =>
  lease === undefined || lease.state === "vacating" ? 0 : leaseGrowth(lease.gpus.length);

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

/** Under the rules of `applyVersion`. `origin`: the packed form of its requests, reasons and leases, if it was just unpacked. */
export function openSize(
  ledger: Pick<Ledger, keyof RowMaps>,
  applyVersion: number,
  origin?: Origin,
): SizeAccount {
  const { shape, requests, reasons, leases, hosts, outbox, reservations } = ledger;
  const account = emptyAccount(shape, applyVersion);
  if (origin === undefined) {
    for (const after of requests.values()) sizeRequest(account, { after });
    for (const [job, after] of reasons) sizeReason(account, job, { after });
    for (const after of leases.values()) sizeLease(account, { after });
  } else
    for (const place of countPacked(account, origin))
      sizeLease(account, { after: entry(origin.leases, place) });
  for (const [host, after] of hosts) sizeHost(account, host, { after });
  for (const [id, after] of outbox) sizeGrant(account, leases.get(id) ?? NO_LEASE, { after });
  for (const after of reservations?.values() ?? []) sizeReservation(account, { after });
  return account;
}

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
 * Measures the parts that have no rows of their own, where they are not the very values that were measured last. `isOpen`: those that may
 * change in place are measured again; every change of the others makes a new value.
 */
export function measureSections(account: SizeAccount, ledger: Sectioned, isOpen: boolean): void {
  const { service, evictions, runs, ownEstimates, latencyDemand, models, links, intake } = ledger;
  const size = <T>(name: SectionName, value: T | undefined, bytesOf: (of: T) => number): void => {
    const mayBeOther = isOpen && (IN_PLACE.has(name) || !account.measured.has(name));
    if (!mayBeOther && account.measured.get(name) === value) return;
    account.measured.set(name, value);
    account.sections[name] = value === undefined ? 0 : bytesOf(value);
  };
  const measure = <T>(name: SectionName, value: T | undefined, pack: (of: T) => unknown): void =>
    size(name, value, (each) => jsonBytes(pack(each)));
  measure("service", service, packService);
  size("evictions", evictions, (notes) => noteBytes(withTexts(packNotes, notes)));
  size("runs", runs, runsBytes);
  measure("ownEstimates", ownEstimates, (kept) => packStartEstimates(kept, LAST_PLACE));
  size("latencyDemand", latencyDemand, demandBytes);
  measure("models", models, packModels);
  measure("links", links, (found) => [...found.values()]);
  measure("intake", intake, packIntake);
  measure("recovery", ledger.recovery, (kept) => kept);
  measure("repairs", ledger.repairs, (notes) => notes);
  size("holds", ledger.holds, (holds) => HOLDS_NAME_BYTES + jsonBytes([...holds.values()]));
  measure("deadLetters", ledger.deadLetters, (letters) => letters);
}

/** What an open transaction changes without making a new value. */
const IN_PLACE: ReadonlySet<SectionName> = new Set([
  "service",
  "models",
  "links",
  "intake",
  "recovery",
]);

const noteBytes = ({ texts, notes }: NoteRows): number =>
  jsonBytes({ texts, notes: [] }) - jsonBytes([]) + numbersBytes(notes);

/** No ledger has more requests. */
const LAST_PLACE = { get: () => 99_999 };

/** An upper bound of the ledger's compact form as JSON. */
export function ledgerBytes(ledger: Ledger): number {
  const account = openSize(ledger, ledger.applyVersion);
  measureSections(account, ledger, false);
  return boundOf(account, ledger);
}

/** The names of all parts but that of holds, with the numbers at their longest. */
const FRAME_BYTES = 492;
/** Under rules without holds nothing else is counted than before there were any. */
const HOLDS_NAME_BYTES = ',"holds":'.length;

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
