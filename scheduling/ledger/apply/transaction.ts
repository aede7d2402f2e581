/**
 * @file A ledger while events change it: a map is copied before its first change, every change is recorded, and a watcher is notified.
 *
 * `apply` begins a transaction for one event; a live scheduler keeps one open over many, on maps of its own. An event that changes nothing
 * returns the same ledger object. Indexes (transaction-index.ts) and accounts (transaction-accounts.ts) are opened when they are first
 * needed and kept up to date from then on; `apply` hands them on from ledger to ledger (kept-accounts.ts).
 * Cost: O(ledger) to open, O(1) to begin, O(size) the first change of a map, O(1) a further one. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { RefusalCode } from "../../../domain/values/codes.ts";
import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import type { ClusterId, HostId, JobId, LeaseId } from "../../../domain/values/ids.ts";
import type {
  GangRequest,
  Lease,
  LeaseFact,
  RequestKey,
  Reservation,
} from "../../../domain/lease/lease.ts";
import type { PendingReason } from "../../../domain/lease/pending.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import type { SiteLink } from "../../../domain/fleet/site-link.ts";
import { draftOf, type DraftMap } from "../../../lib/draft-map.ts";
import type { KeptEstimate } from "../rules/start-estimates.ts";
import { traceOf, type DemandBook } from "../rules/inference-demand.ts";
import type { ServingModel } from "../../../domain/lease/inbox-entry.ts";
import {
  isBounded,
  type Applied,
  type DeadLetter,
  type EvictionNote,
  type HostStatus,
  type JunkNote,
  type Ledger,
  type LedgerRecovery,
  type OutboxGrant,
  type Refusal,
  type QueueHold,
  type RepairNote,
  type RunNote,
  type ServiceAccount,
} from "../ledger.ts";
import { intakeOf, type OpenIntake } from "../rules/open-intake.ts";
import type { ByteShares } from "../rules/byte-shares.ts";
import type { Pool } from "../rules/places.ts";
import type { Reserved } from "../rules/reservation-index.ts";
import { DEAD_LETTER_CHARACTERS, MAX_DEAD_LETTERS, withLetter } from "../rules/dead-letters.ts";
import type { SizeAccount } from "../size-state.ts";
import { accountOf, type ServiceBook } from "../rules/service-account.ts";
import type { Usage } from "../rules/usage.ts";

/** Is called after every change, but where it says otherwise; `before` is absent for a new entry, `after` for a removed one. */
export interface LedgerWatcher {
  readonly request?: (
    before: PendingRequest | undefined,
    after: PendingRequest | undefined,
  ) => void;
  readonly lease?: (before: Lease | undefined, after: Lease | undefined) => void;
  /** Before a change of the reason that is stored for the job. */
  readonly reason?: (job: JobId) => void;
  readonly reservation?: (before: Reservation | undefined, after: Reservation | undefined) => void;
  readonly host?: (host: HostId) => void;
  readonly shape?: (shape: FleetShape) => void;
  /** Other parts of the queue are held than before. */
  readonly holds?: () => void;
}

export interface LedgerTransaction {
  readonly before: Ledger;
  readonly watcher: LedgerWatcher;
  shape: Ledger["shape"];
  detailsHash: string | undefined;
  nextToken: number;
  nextArrival: number;
  /** Where the maps below are changed. */
  readonly drafts: LedgerDrafts;
  readonly requests: ReadonlyMap<JobId, PendingRequest>;
  readonly reasons: ReadonlyMap<JobId, PendingReason>;
  readonly leases: ReadonlyMap<LeaseId, Lease>;
  readonly hosts: ReadonlyMap<HostId, HostStatus>;
  readonly outbox: ReadonlyMap<LeaseId, OutboxGrant>;
  readonly reservations: ReadonlyMap<JobId, Reservation>;
  readonly models: ReadonlyMap<ClusterId, ServingModel>;
  readonly links: ReadonlyMap<string, SiteLink>;
  deadLetters: readonly DeadLetter[];
  recovery: LedgerRecovery | undefined;
  repairs: readonly RepairNote[] | undefined;
  holds: ReadonlyMap<string, QueueHold> | undefined;
  isReasonRoomLow: boolean;
  service: ServiceAccount | undefined;
  evictions: readonly EvictionNote[];
  runs: readonly RunNote[];
  ownEstimates: readonly KeptEstimate[];
  /** Of the events since `takeOutcome`. */
  refusals: Refusal[];
  granted: LeaseId[];
  orphaned: LeaseFact[];
  outside: RequestKey[];
  held: GangRequest[];
  needsDecision: boolean;
  /** Whether any event has changed the ledger since the transaction was opened. */
  isChanged: boolean;
  /** Whether mass silence held before this event; undefined while the event has changed no host. */
  wasMassSilent: boolean | undefined;
  /** What waits outside, opened before its first change. */
  intake?: OpenIntake;
  /** The places inside that are in use. */
  places?: Pool | undefined;
  /** The bytes of requests by share, once there is little room. */
  byteShares?: ByteShares | undefined;
  /** The time of the event that is being applied. */
  nowMs: number;
  /** The account of service, opened before its first change. */
  book?: ServiceBook;
  /** The account as the event before left it; its flows are those of the ledger. */
  formerBook?: ServiceBook | undefined;
  /** The demand of inference jobs, opened before its first change. */
  demand?: DemandBook;
  usage?: Usage | undefined;
  /** Whether the order of its labels is that of the leases when this event first needed them. */
  isUsageFresh?: boolean;
  reserved?: Reserved | undefined;
  leaseIdsByJob?: Map<JobId, Set<LeaseId>> | undefined;
  /** A lease has come in before others. */
  isLeaseLate?: boolean;
  evictingIds?: Set<LeaseId> | undefined;
  opportunisticIds?: Set<LeaseId> | undefined;
  /** The size of the compact form; absent under rules without a budget. Read and changed by transaction-size.ts. */
  size?: SizeAccount | undefined;
  /** What parts that are measured whole have grown by in this event. */
  grownBytes: number;
  /** It serves many events, and its maps change in place. */
  isOpen: boolean;
}

export interface LedgerDrafts {
  readonly requests: DraftMap<JobId, PendingRequest>;
  readonly reasons: DraftMap<JobId, PendingReason>;
  readonly leases: DraftMap<LeaseId, Lease>;
  readonly hosts: DraftMap<HostId, HostStatus>;
  readonly outbox: DraftMap<LeaseId, OutboxGrant>;
  readonly reservations: DraftMap<JobId, Reservation>;
  readonly models: DraftMap<ClusterId, ServingModel>;
  readonly links: DraftMap<string, SiteLink>;
}

/** For many events: from the start the maps are the transaction's own and stay the same. */
export function openTransaction(before: Ledger, watcher: LedgerWatcher = {}): LedgerTransaction {
  const transaction = beginTransaction(before, watcher);
  for (const draft of Object.values(transaction.drafts)) draft.write();
  transaction.isOpen = true;
  return transaction;
}

/** For one event. */
export function beginTransaction(before: Ledger, watcher: LedgerWatcher = {}): LedgerTransaction {
  const drafts: LedgerDrafts = {
    requests: draftOf(before.requests),
    reasons: draftOf(before.reasons),
    leases: draftOf(before.leases),
    hosts: draftOf(before.hosts),
    outbox: draftOf(before.outbox),
    reservations: draftOf(before.reservations),
    models: draftOf(before.models),
    links: draftOf(before.links),
  };
  return {
    before,
    watcher,
    shape: before.shape,
    detailsHash: before.detailsHash,
    nextToken: before.nextToken,
    nextArrival: before.nextArrival,
    drafts,
    get requests() {
      return drafts.requests.now;
    },
    get reasons() {
      return drafts.reasons.now;
    },
    get leases() {
      return drafts.leases.now;
    },
    get hosts() {
      return drafts.hosts.now;
    },
    get outbox() {
      return drafts.outbox.now;
    },
    get reservations() {
      return drafts.reservations.now;
    },
    get models() {
      return drafts.models.now;
    },
    get links() {
      return drafts.links.now;
    },
    deadLetters: before.deadLetters,
    recovery: before.recovery,
    repairs: before.repairs,
    holds: before.holds,
    isReasonRoomLow: before.isReasonRoomLow === true,
    service: before.service,
    evictions: before.evictions ?? [],
    runs: before.runs ?? [],
    ownEstimates: before.ownEstimates ?? [],
    refusals: [],
    granted: [],
    orphaned: [],
    outside: [],
    held: [],
    needsDecision: false,
    isChanged: false,
    wasMassSilent: undefined,
    nowMs: 0,
    grownBytes: 0,
    isOpen: false,
  };
}

export function closeTransaction(transaction: LedgerTransaction): Applied {
  return {
    ledger: transaction.isChanged ? ledgerOf(transaction) : transaction.before,
    ...takeOutcome(transaction),
  };
}

/** The outcome of the events since the last call. */
export function takeOutcome(transaction: LedgerTransaction): Omit<Applied, "ledger"> {
  const { refusals, granted, orphaned, outside, held, needsDecision } = transaction;
  transaction.refusals = [];
  transaction.granted = [];
  transaction.orphaned = [];
  transaction.outside = [];
  transaction.held = [];
  transaction.needsDecision = false;
  return { refusals, granted, orphaned, outside, held, needsDecision };
}

/** The ledger as it is now. It shares the maps of the transaction: while that is open, it is valid until the next event. */
export function ledgerOf(transaction: LedgerTransaction): Ledger {
  const { before, detailsHash, reservations, evictions, runs, ownEstimates } = transaction;
  const { models, links, recovery, repairs, holds, isReasonRoomLow } = transaction;
  const intake = transaction.intake === undefined ? before.intake : intakeOf(transaction.intake);
  const service =
    transaction.book === undefined ? transaction.service : accountOf(transaction.book);
  const latencyDemand =
    transaction.demand === undefined ? before.latencyDemand : traceOf(transaction.demand);
  const { shape, nextToken, nextArrival, requests, reasons, leases, hosts, outbox } = transaction;
  return {
    applyVersion: before.applyVersion,
    shape,
    ...(detailsHash !== undefined && { detailsHash }),
    nextToken,
    nextArrival,
    requests,
    reasons,
    leases,
    hosts,
    outbox,
    deadLetters: transaction.deadLetters,
    ...(reservations.size > 0 && { reservations }),
    ...(service !== undefined && { service }),
    ...(evictions.length > 0 && { evictions }),
    ...(latencyDemand !== undefined && { latencyDemand }),
    ...(runs.length > 0 && { runs }),
    ...(ownEstimates.length > 0 && { ownEstimates }),
    ...(models.size > 0 && { models }),
    ...(links.size > 0 && { links }),
    ...(intake !== undefined && { intake }),
    ...(recovery !== undefined && { recovery }),
    ...(repairs !== undefined && { repairs }),
    ...(holds !== undefined && { holds }),
    ...(isReasonRoomLow && { isReasonRoomLow }),
  };
}

/** A change that may change the answer of `decide`. */
export function noteChange(transaction: LedgerTransaction): void {
  transaction.isChanged = true;
  transaction.needsDecision = true;
}

export function refuse(transaction: LedgerTransaction, code: RefusalCode, message: string): void {
  transaction.refusals.push({ code, message });
}

/** Refuses an inbox entry, and keeps its beginning as a dead letter. */
export function bury(
  transaction: LedgerTransaction,
  {
    code,
    message,
    json,
    nowMs,
    sender,
  }: { code: RefusalCode; message: string; json: string; nowMs: number; sender?: string },
): void {
  refuse(transaction, code, message);
  const letter = { atMs: nowMs, code, message, entry: json.slice(0, DEAD_LETTER_CHARACTERS) };
  const letters = transaction.deadLetters;
  transaction.deadLetters = !isBounded(transaction.before)
    ? [...letters, letter].slice(-MAX_DEAD_LETTERS)
    : withLetter(letters, { ...letter, ...(sender !== undefined && { sender }) });
  transaction.isChanged = true;
}

/** Notes entries that were dropped unread: no refusal, for nobody waits for an answer. */
export function buryJunk(
  transaction: LedgerTransaction,
  { times, entry, ...note }: JunkNote,
): void {
  transaction.deadLetters = withLetter(transaction.deadLetters, {
    atMs: transaction.nowMs,
    ...note,
    entry: entry.slice(0, DEAD_LETTER_CHARACTERS),
    ...(times > 1 && { times }),
  });
  transaction.isChanged = true;
}
