/**
 * @file The size of a ledger while events change it, and whether there is room for more. From `BOUNDED_RULES` on.
 *
 * What a fleet carries over continue-as-new has `STATE_BUDGET_BYTES`. Whoever asks for room is refused when there is none; nobody refuses ends,
 * confirmations and deliveries, so their growth is kept free from the start: of each lease for its end, of each host for its agent, of each
 * flow for its service, and of the fleet for leases, so that a full queue never keeps GPUs idle. What is only advice (reasons, estimates,
 * notes of runs, dead letters, accounts of idle flows) counts for nobody's room: it gives way when it does not fit any more.
 * Cost: O(ledger) the first event on a ledger, then O(1) a question. Replayed: a change of behaviour here needs a new version of the rules
 * (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import type { HostId, JobId } from "../../../domain/values/ids.ts";
import type { GangRequest, Lease } from "../../../domain/lease/lease.ts";
import type { PendingReason } from "../../../domain/lease/pending.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import {
  areFewCalled,
  isBounded,
  type HostStatus,
  type Ledger,
  type OutboxGrant,
} from "../ledger.ts";
import { takeOrigin } from "../codec-origin.ts";
import { isIdleFlow } from "../rules/service-account.ts";
import {
  boundOf,
  measureSections,
  openSize,
  reasonBytes,
  rowBytes,
  sizeGrant,
  sizeHost,
  sizeReason,
  sizeRequest,
  type Change,
} from "../size-account.ts";
import type { SizeAccount } from "../size-state.ts";
import { jsonBytes } from "../size-table.ts";
import { settledBook } from "./transaction-accounts.ts";
import { ledgerOf, type LedgerTransaction } from "./transaction.ts";

/** Of JSON before compression: Temporal refuses 2 MiB. */
export const STATE_BUDGET_BYTES = 1_835_008;
/** What the fleet's machine carries beside the ledger: names, times, and 16 Ki characters of its chain of events, of 3 bytes each at most. */
export const MACHINE_BYTES = 52 * 1_024;

/** Kept free of requests, for grants and agents. */
const REQUEST_MARGIN_BYTES = 48 * 1_024;
/** Of this margin, for rows of lobbies. */
const ROWS_IN_MARGIN_BYTES = 24 * 1_024;
/** Kept free of all that can be refused. */
const LAST_MARGIN_BYTES = 16 * 1_024;
/** Kept for leases, however few there are: so much for each GPU, up to a limit. */
const LEASE_ROOM_BYTES = 140;
const MOST_LEASE_ROOM_BYTES = 192 * 1_024;
/** Kept for the agent of a host, and beside a known agent for the host's silence and its fence. */
const HOST_ROOM_BYTES = 130;
const SILENCE_BYTES = 32;
/** For the reasons of the front of the queue, which are told whenever they change: those of one plan with the most of them. */
const LOW_REASON_ROOM_BYTES = 64 * 1_024;
/** Of the demand of inference jobs: the most that its window can have. */
const DEMAND_BYTES = 14_400;

/** Opens the account before the first change of an event; undefined under rules without a budget. */
export function openSizeIn(transaction: LedgerTransaction): SizeAccount | undefined {
  if (!isBounded(transaction.before)) return undefined;
  if (transaction.size === undefined) {
    const { before } = transaction;
    transaction.size = openSize(transaction, before.applyVersion, takeOrigin(before));
    measureSections(transaction.size, ledgerOf(transaction), true);
  }
  return transaction.size;
}

/** After a change of the fleet's description, which gives hosts other numbers. */
export function reopenSize(transaction: LedgerTransaction): void {
  const { size, before } = transaction;
  if (size !== undefined)
    transaction.size = withSections(openSize(transaction, before.applyVersion), size);
}

/** The shape's are its own. */
function withSections(account: SizeAccount, { sections }: SizeAccount): SizeAccount {
  const { shape } = account.sections;
  Object.assign(account.sections, sections, { shape });
  return account;
}

/** Bytes that are taken or kept free. */
function committedBytes({ size, shape, grownBytes }: Sized): number {
  const { rows, tables, sections } = size;
  const hosts = rows.hosts + tables.agents.bytes();
  const { hosts: hostCount } = fleetSizeOf(shape);
  const hostRoom = Math.max(HOST_ROOM_BYTES * hostCount, hosts + SILENCE_BYTES * hostCount);
  return (
    MACHINE_BYTES +
    sections.shape +
    rowBytes(size) +
    (hostRoom - hosts) +
    size.growth +
    size.requests +
    size.flows.bytes() +
    sections.evictions +
    sections.models +
    sections.links +
    sections.intake +
    DEMAND_BYTES +
    grownBytes
  );
}

interface Sized extends Pick<LedgerTransaction, "shape" | "grownBytes"> {
  readonly size: SizeAccount;
}

interface FleetSize {
  readonly hosts: number;
  readonly gpus: number;
}

const FLEET_SIZES = new WeakMap<FleetShape, FleetSize>();

function fleetSizeOf(shape: FleetShape): FleetSize {
  const known = FLEET_SIZES.get(shape);
  if (known !== undefined) return known;
  const hosts = shape.clusters.flatMap((cluster) => cluster.hosts);
  const size = { hosts: hosts.length, gpus: hosts.reduce((sum, host) => sum + host.gpuCount, 0) };
  FLEET_SIZES.set(shape, size);
  return size;
}

/** Bytes that would be left for further requests if this one waited inside; below 0 it may not. */
export function roomBehind(
  transaction: LedgerTransaction,
  request: Omit<PendingRequest, "arrival"> | GangRequest,
): number {
  const { size } = transaction;
  if (size === undefined) return Infinity;
  const after = { ...request, arrival: transaction.nextArrival };
  const before = transaction.requests.get(request.jobId);
  return tried(size, { before, after, size: sizeRequest }, () => requestRoom(transaction, size));
}

/** Bytes that further requests may take. */
export function requestRoom(transaction: LedgerTransaction, size: SizeAccount): number {
  const { shape, grownBytes } = transaction;
  const leases = size.rows.leases + size.rows.outbox;
  const bytes =
    committedBytes({ size, shape, grownBytes }) + Math.max(0, leaseRoomFor(shape) - leases);
  return STATE_BUDGET_BYTES - REQUEST_MARGIN_BYTES - bytes + marginRows(transaction, size);
}

/** What rows of lobbies take of the requests' margin: so they take nothing from the last bytes of those with few inside. */
export const marginRows = ({ before, grownBytes }: LedgerTransaction, size: SizeAccount): number =>
  areFewCalled(before) ? Math.min(ROWS_IN_MARGIN_BYTES, size.sections.intake + grownBytes) : 0;

/** Whether the rows of lobbies take all that they may in a fleet that is full, with so much of its room kept. */
export function areRowsFull(transaction: LedgerTransaction, keptBytes: number): boolean {
  const { before, size } = transaction;
  return (
    size !== undefined &&
    areFewCalled(before) &&
    marginRows(transaction, size) >= ROWS_IN_MARGIN_BYTES &&
    requestRoom(transaction, size) < keptBytes
  );
}

const leaseRoomFor = (shape: FleetShape): number =>
  Math.min(MOST_LEASE_ROOM_BYTES, LEASE_ROOM_BYTES * fleetSizeOf(shape).gpus);

/** Bytes that requests can have in all: what a fleet of this description leaves as long as nothing has happened. */
export function mostRequestBytes({ size, shape }: LedgerTransaction): number {
  const kept = leaseRoomFor(shape) + HOST_ROOM_BYTES * fleetSizeOf(shape).hosts + DEMAND_BYTES;
  const fixed = MACHINE_BYTES + (size?.sections.shape ?? 0);
  return Math.max(0, STATE_BUDGET_BYTES - REQUEST_MARGIN_BYTES - fixed - kept);
}

/** Tries a change, asks, and takes it back. */
function tried<T, Answer>(
  account: SizeAccount,
  {
    before,
    after,
    size,
  }: Change<T> & { readonly size: (account: SizeAccount, of: Change<T>) => void },
  ask: () => Answer,
): Answer {
  size(account, { before, after });
  const answer = ask();
  size(account, { before: after, after: before });
  return answer;
}

/** Whether so many bytes more can be refused and need not be. */
export function isRoomFor(transaction: LedgerTransaction, bytes: number): boolean {
  const { size, shape, grownBytes } = transaction;
  if (size === undefined) return true;
  return (
    committedBytes({ size, shape, grownBytes }) + bytes <= STATE_BUDGET_BYTES - LAST_MARGIN_BYTES
  );
}

/** Whether the host may have this status. */
export function isRoomForHost(
  transaction: LedgerTransaction,
  host: HostId,
  after: HostStatus,
): boolean {
  const { size } = transaction;
  if (size === undefined) return true;
  const sizeIt = (account: SizeAccount, of: Change<HostStatus>): void =>
    sizeHost(account, host, of);
  return tried(size, { before: transaction.hosts.get(host), after, size: sizeIt }, () =>
    isRoomFor(transaction, 0),
  );
}

/** More than a lease, its grant, an eviction or a reservation has beside what its word says. */
const ROW_BYTES = 300;

/** Whether there is room for what a word asks for, as a lease, a grant, an eviction or a reservation. */
export const isRoomForWord = (transaction: LedgerTransaction, word: unknown): boolean =>
  transaction.size === undefined || isRoomFor(transaction, 2 * jsonBytes(word) + ROW_BYTES);

/** Whether the description of a fleet leaves room for what the ledger has; one that needs less always does. */
export function isRoomForShape(transaction: LedgerTransaction, shape: FleetShape): boolean {
  const { size, grownBytes } = transaction;
  if (size === undefined) return true;
  const { requests, reasons, leases, hosts, outbox, reservations } = transaction;
  const next = withSections(
    openSize(
      { shape, requests, reasons, leases, hosts, outbox, reservations },
      transaction.before.applyVersion,
    ),
    size,
  );
  const bytes = committedBytes({ size: next, shape, grownBytes });
  return (
    bytes <= STATE_BUDGET_BYTES - LAST_MARGIN_BYTES ||
    bytes <= committedBytes({ size, shape: transaction.shape, grownBytes })
  );
}

/** Something that is measured whole has grown; it is measured at the end of the event. */
export function noteGrowth(transaction: LedgerTransaction, bytes: number): void {
  transaction.grownBytes += bytes;
}

/** Stores why a request waits, if there is room for it; undefined takes the reason away. */
export function putReason(
  transaction: LedgerTransaction,
  job: JobId,
  after: PendingReason | undefined,
): void {
  const { size } = transaction;
  const before = transaction.reasons.get(job);
  if (before === undefined && after === undefined) return;
  const reasons = transaction.drafts.reasons.write();
  transaction.watcher.reason?.(job);
  if (size !== undefined) sizeReason(size, job, { before, after });
  if (after === undefined) reasons.delete(job);
  else reasons.set(job, after);
  if (size === undefined || after === undefined) return;
  if (adviceRoom(transaction, size) >= 0) return;
  const short = shortReason(after);
  sizeReason(size, job, { before: after, after: short });
  reasons.set(job, short);
  if (adviceRoom(transaction, size) >= 0) return;
  sizeReason(size, job, { before: short });
  reasons.delete(job);
}

/**
 * What stays of a reason where there is no room for its figures: the code, by which hopeless requests give way and nobody is told the same
 * again. All that share a code share its row.
 */
const shortReason = ({ code }: PendingReason): PendingReason => ({
  code,
  message: "the fleet carries too much to keep the figures",
  numbers: {},
  holders: [],
  wakeOn: ["timer"],
});

/** Bytes that advice may still take. */
function adviceRoom(transaction: LedgerTransaction, size: SizeAccount): number {
  const { shape, grownBytes } = transaction;
  const committed = committedBytes({ size, shape, grownBytes });
  return STATE_BUDGET_BYTES - LAST_MARGIN_BYTES - committed - adviceBytes(transaction, size);
}

const adviceBytes = ({ reasons }: LedgerTransaction, size: SizeAccount): number =>
  reasonBytes(size, reasons.size) +
  size.sections.service +
  size.sections.runs +
  size.sections.ownEstimates +
  size.sections.repairs +
  size.sections.deadLetters;

/** A grant that has yet to be delivered; undefined where it has been, or will not be. */
export function putGrant(
  transaction: LedgerTransaction,
  lease: Pick<Lease, "id" | "token">,
  after: OutboxGrant | undefined,
): void {
  const before = transaction.outbox.get(lease.id);
  if (before === undefined && after === undefined) return;
  if (transaction.size !== undefined) sizeGrant(transaction.size, lease, { before, after });
  const outbox = transaction.drafts.outbox.write();
  if (after === undefined) outbox.delete(lease.id);
  else outbox.set(lease.id, after);
}

/** At the end of an event: measures what has no rows, and lets advice give way until everything fits. */
export function settleSize(transaction: LedgerTransaction): void {
  const { size } = transaction;
  if (size === undefined || !(transaction.isChanged || transaction.isOpen)) return;
  makeRoom(transaction, size);
  transaction.isReasonRoomLow = adviceRoom(transaction, size) < LOW_REASON_ROOM_BYTES;
}

function makeRoom(transaction: LedgerTransaction, size: SizeAccount): void {
  transaction.grownBytes = 0;
  const measure = (): number => {
    const ledger: Ledger = ledgerOf(transaction);
    measureSections(size, ledger, transaction.isOpen);
    return boundOf(size, ledger) + size.requests + MACHINE_BYTES;
  };
  for (const giveWay of [
    dropEstimates,
    dropLetters,
    dropRepairs,
    dropRuns,
    dropReasons,
    dropIdleFlows,
  ]) {
    if (measure() <= STATE_BUDGET_BYTES) return;
    giveWay(transaction);
    transaction.isChanged = true;
  }
  measure();
}

function dropEstimates(transaction: LedgerTransaction): void {
  transaction.ownEstimates = [];
}

function dropLetters(transaction: LedgerTransaction): void {
  transaction.deadLetters = [];
}

function dropRepairs(transaction: LedgerTransaction): void {
  transaction.repairs = undefined;
}

function dropRuns(transaction: LedgerTransaction): void {
  transaction.runs = [];
}

/** The newest ones first: the oldest requests keep theirs. Before any goes they lose their figures. */
function dropReasons(transaction: LedgerTransaction): void {
  const { size } = transaction;
  if (size === undefined) return;
  const newestFirst = [...transaction.reasons].reverse();
  for (const shortened of [shortReason, () => undefined]) {
    for (const [job, reason] of newestFirst) {
      if (boundOf(size, transaction) + size.requests + MACHINE_BYTES <= STATE_BUDGET_BYTES) return;
      putReason(transaction, job, shortened(reason));
    }
  }
}

function dropIdleFlows(transaction: LedgerTransaction): void {
  const book = settledBook(transaction);
  for (const flow of [...book.flows.keys()]) if (isIdleFlow(book, flow)) book.flows.delete(flow);
}
