/**
 * @file Changes, in a ledger's transaction, of what the ledger knows of the requests that wait outside. From `BOUNDED_RULES` on.
 *
 * Cost: O(requests + lobbies) to open the pool of places, then O(1) a change; O(lobbies + news) an event that changes anything outside.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { GangRequest, Lease, RequestKey } from "../../../domain/lease/lease.ts";
import { eraOf } from "../../../domain/lease/lobby-order.ts";
import type { FirstByClass, LobbyReport } from "../../../domain/lease/lobby.ts";
import { JOB_CLASSES } from "../../../domain/job/job.ts";
import type { JobId, TenantId } from "../../../domain/values/ids.ts";
import { FIRST_ERA, OTHER_TENANTS, type LobbyAccount, type OutsideRow } from "../intake.ts";
import { JUDGED_ONCE_RULES } from "../ledger.ts";
import { KEPT_ROWS_RULES } from "../upgrade.ts";
import { giveCredits } from "../rules/credits.ts";
import { flowWeights } from "../rules/flow.ts";
import { NEW_LOBBY, openIntake, type OpenIntake } from "../rules/open-intake.ts";
import { placesOf, sumOf, take, type Pool } from "../rules/places.ts";
import { jsonBytes } from "../size-table.ts";
import { isRecovering } from "./ledger-recovery.ts";
import { callsIn, smallBytes } from "./transaction-bytes.ts";
import { areRowsFull, isRoomForWord, noteGrowth } from "./transaction-size.ts";
import type { LedgerTransaction } from "./transaction.ts";

/** Tenants whose lobbies are counted one by one; the jobs of further ones wait in the lobby of `OTHER_TENANTS`. */
const MAX_LOBBIES = 1_000;
/** Rows of which lobbies have yet to hear; those that give way may be a few more. */
const MAX_NEWS = 500;
/** Jobs that may return to their places, and for how long. */
const MAX_RETURNING = 1_000;
const RETURN_WITHIN_MS = 3_600_000;
/** Of what lobbies say: more descriptions than a fleet ever has, and so few that no lie uses up the rounds that a request may have. */
const LAST_TOLD_ERA = 2 ** 20;

export const intakeIn = (transaction: LedgerTransaction): OpenIntake =>
  (transaction.intake ??= openIntake(transaction.before.intake));

export const placesIn = (transaction: LedgerTransaction): Pool =>
  (transaction.places ??= placesOf(
    transaction.shape,
    transaction.requests.values(),
    (transaction.intake ?? transaction.before.intake)?.lobbies ?? new Map(),
  ));

/** Whether no further request may be put outside before lobbies have been told of some. */
export const isNewsFull = (
  transaction: LedgerTransaction,
  { jobId, runId, tenant }: Pick<GangRequest, "jobId" | "runId" | "tenant">,
): boolean =>
  intakeIn(transaction).news.size >= MAX_NEWS ||
  areRowsFull(transaction, smallBytes(transaction)) ||
  !isRoomForWord(transaction, [jobId, runId, tenant]);

/** Whether those that the fleet's description can never satisfy give way once alone. */
export const isJudgedOnce = ({ before }: LedgerTransaction): boolean =>
  before.applyVersion >= JUDGED_ONCE_RULES;

const areRowsKept = ({ before }: LedgerTransaction): boolean =>
  before.applyVersion >= KEPT_ROWS_RULES;

/** The era of the present description. */
export const eraIn = ({ intake, before }: LedgerTransaction): number =>
  (intake ?? before.intake)?.era ?? FIRST_ERA;

/** What gave way in vain before was not judged by the present description. */
export function beginEra(transaction: LedgerTransaction, era: number): void {
  intakeIn(transaction).era = era;
  transaction.isChanged = true;
}

/** Puts a request into the lobby of its tenant, which is told by the next delivery. */
export function putOutside(
  transaction: LedgerTransaction,
  request: GangRequest,
  round: number,
): void {
  const { jobId, runId, seq, priority, submittedAtMs, requestedAtMs, gang } = request;
  const lobby = lobbyOf(transaction, request.tenant);
  const row = {
    ...{ lobby, jobId, runId, seq, class: request.class, priority, submittedAtMs },
    ...(areRowsKept(transaction) && { requestedAtMs }),
  };
  intakeIn(transaction).news.set(jobId, { ...row, gpus: gang.gpus, round });
  noteGrowth(transaction, jsonBytes([row, lobby]));
  countWaiting(transaction, row, 1);
  noteOutside(transaction, { lobby, class: request.class, round });
  transaction.outside.push({ jobId, runId, seq });
  transaction.isChanged = true;
}

/** A lobby that has not said who is first there says so when it hears of the row. */
function noteOutside(
  transaction: LedgerTransaction,
  { lobby, class: name, round }: Pick<OutsideRow, "lobby" | "class" | "round">,
): void {
  const account = intakeIn(transaction).lobbies.get(lobby);
  if (account?.first === undefined) return;
  const first = withRow(account.first, { class: name, round });
  setLobby(transaction, lobby, { ...account, first });
}

function withRow(
  first: FirstByClass,
  { class: name, round }: Pick<OutsideRow, "class" | "round">,
): FirstByClass {
  const before = first[name];
  if (before === undefined || eraOf(round) < eraOf(before.round))
    return { ...first, [name]: { round, count: 1 } };
  if (eraOf(round) > eraOf(before.round)) return first;
  const lowest = Math.min(round, before.round);
  return { ...first, [name]: { round: lowest, count: before.count + 1 } };
}

/** What its lobby has yet to hear about the job is out of date. */
export function withdrawNews(transaction: LedgerTransaction, { jobId }: Pick<RequestKey, "jobId">) {
  if (!(transaction.intake ?? transaction.before.intake)?.news.has(jobId)) return;
  const { news } = intakeIn(transaction);
  const row = news.get(jobId);
  if (row === undefined) return;
  news.delete(jobId);
  countWaiting(transaction, row, -1);
  transaction.isChanged = true;
}

function lobbyOf(transaction: LedgerTransaction, tenant: TenantId): TenantId {
  const { lobbies } = intakeIn(transaction);
  const isOwn =
    lobbies.has(tenant) ||
    lobbies.size < MAX_LOBBIES ||
    transaction.shape.tenants.some(({ id }) => id === tenant);
  return isOwn ? tenant : OTHER_TENANTS;
}

function countWaiting(
  transaction: LedgerTransaction,
  row: Pick<OutsideRow, "lobby" | "class">,
  change: 1 | -1,
): void {
  const account = intakeIn(transaction).lobbies.get(row.lobby) ?? NEW_LOBBY;
  const { waiting } = account;
  const count = Math.max(0, waiting[row.class] + change);
  setLobby(transaction, row.lobby, { ...account, waiting: { ...waiting, [row.class]: count } });
}

/** A lobby in which nobody waits and that has no credits is as good as one that was never heard of. */
function setLobby(transaction: LedgerTransaction, tenant: TenantId, account: LobbyAccount): void {
  const { lobbies } = intakeIn(transaction);
  if (sumOf(account.waiting) + account.credits.size > 0) lobbies.set(tenant, account);
  else lobbies.delete(tenant);
  transaction.isChanged = true;
}

/** Takes a credit back, and says whether it was out. */
export function endCredit(
  transaction: LedgerTransaction,
  tenant: TenantId,
  number: number,
): boolean {
  const account = (transaction.intake ?? transaction.before.intake)?.lobbies.get(tenant);
  const credit = account?.credits.get(number);
  if (account === undefined || credit === undefined) return false;
  take(placesIn(transaction), { tenant, class: credit.class }, -1);
  const credits = new Map(account.credits);
  credits.delete(number);
  setLobby(transaction, tenant, { ...account, credits });
  return true;
}

/** The lobby hears of the credit once more, if it is out. */
export function announceAgain(
  transaction: LedgerTransaction,
  tenant: TenantId,
  number: number,
): void {
  const account = intakeIn(transaction).lobbies.get(tenant);
  const credit = account?.credits.get(number);
  if (account === undefined || credit === undefined) return;
  const credits = new Map(account.credits).set(number, { ...credit, isAnnounced: false });
  setLobby(transaction, tenant, { ...account, credits });
}

/**
 * A lobby's own count holds, beside the rows of which it has yet to hear. It may have counted some of these, and jobs to which credits are on
 * their way: too high a count costs credits that come back, too low a one would leave a job outside for good. So one from before the lobby was told of
 * rows, or a late copy, lowers nothing: should the lobby be ended by hand before it counts again, nothing else would open it.
 */
export function applyLobbyReport(transaction: LedgerTransaction, word: LobbyReport): void {
  const { tenant, report, waiting, first, returned } = word;
  const { lobbies, news } = intakeIn(transaction);
  const former = lobbies.get(tenant) ?? NEW_LOBBY;
  for (const number of returned) endCredit(transaction, tenant, number);
  if (areRowsKept(transaction) && report <= former.report)
    return raiseCount(transaction, word, former);
  const account = lobbies.get(tenant) ?? NEW_LOBBY;
  if (report <= account.report) return;
  const counted = { ...waiting };
  let isFirst = first;
  for (const row of news.values()) {
    if (row.lobby !== tenant) continue;
    counted[row.class] += 1;
    isFirst &&= withRow(isFirst, row);
  }
  setLobby(transaction, tenant, {
    ...account,
    report,
    waiting: counted,
    ...(isFirst !== undefined && { first: isFirst }),
  });
  noteLostEras(transaction, first);
}

/** By an old report: those for whom the credits were that come back may wait still. */
function raiseCount(
  transaction: LedgerTransaction,
  { tenant, waiting, returned }: LobbyReport,
  former: LobbyAccount,
): void {
  const least = { ...former.waiting };
  for (const number of returned) {
    const credit = former.credits.get(number);
    if (credit !== undefined) least[credit.class] += 1;
  }
  for (const name of JOB_CLASSES) least[name] = Math.max(least[name], waiting[name]);
  const account = intakeIn(transaction).lobbies.get(tenant) ?? { ...former, credits: new Map() };
  setLobby(transaction, tenant, { ...account, waiting: least });
}

/** Eras that this ledger has not had, or cannot tell from its own while it recovers, are those of a ledger that was lost. */
function noteLostEras(transaction: LedgerTransaction, first: FirstByClass | undefined): void {
  const eras = Object.values(first ?? {}).map(({ round }) => eraOf(round));
  const least = eraIn(transaction) + (isRecovering(transaction, transaction.nowMs) ? 0 : 1);
  const last = Math.min(LAST_TOLD_ERA, Math.max(0, ...eras));
  if (last >= least) beginEra(transaction, last + 1);
}

export function applyLobbiesTold(
  transaction: LedgerTransaction,
  told: { readonly rows: readonly RequestKey[]; readonly credits: readonly number[] },
): void {
  const { lobbies, news } = intakeIn(transaction);
  for (const { jobId, runId, seq } of told.rows) {
    const row = news.get(jobId);
    if (row?.runId !== runId || row.seq !== seq) continue;
    news.delete(jobId);
    const account = lobbies.get(row.lobby);
    if (account !== undefined && areRowsKept(transaction))
      lobbies.set(row.lobby, { ...account, report: Math.max(account.report, transaction.nowMs) });
  }
  const numbers = new Set(told.credits);
  for (const [tenant, account] of lobbies) {
    const credits = [...account.credits].map(
      ([number, credit]) =>
        [number, numbers.has(number) ? { ...credit, isAnnounced: true } : credit] as const,
    );
    if (numbers.size > 0 && credits.some(([number]) => numbers.has(number)))
      lobbies.set(tenant, { ...account, credits: new Map(credits) });
  }
  transaction.isChanged = true;
}

/** Makes credits of free places while anybody waits outside. */
export function shareOutPlaces(transaction: LedgerTransaction): void {
  const { lobbies } = transaction.intake ?? transaction.before.intake ?? { lobbies: NOBODY };
  if (![...lobbies.values()].some(({ waiting }) => sumOf(waiting) > 0)) return;
  const calls = callsIn(transaction, lobbies);
  if (calls === undefined) return;
  const weights = flowWeights(transaction.shape.tenants);
  const terms = {
    weightOf: (tenant: TenantId) => weights(`training ${tenant}`),
    nowMs: transaction.nowMs,
    calls,
  };
  if (giveCredits(intakeIn(transaction), placesIn(transaction), terms))
    transaction.isChanged = true;
}

const NOBODY: ReadonlyMap<TenantId, LobbyAccount> = new Map();

/** The job of a lease that is over will ask again: its next request is not refused. */
export function letReturn(transaction: LedgerTransaction, { jobId, runId }: Lease): void {
  const { returning } = intakeIn(transaction);
  const { nowMs } = transaction;
  returning.delete(jobId);
  returning.set(jobId, { runId, endedAtMs: nowMs });
  for (const [job, { endedAtMs }] of returning) {
    if (returning.size <= MAX_RETURNING && endedAtMs > nowMs - RETURN_WITHIN_MS) break;
    returning.delete(job);
  }
  transaction.isChanged = true;
}

/** Whether the job may return to its place. */
export const mayReturn = ({ intake, before }: LedgerTransaction, job: JobId): boolean =>
  (intake ?? before.intake)?.returning.has(job) === true;

/** The same; it may once. */
export function takeReturn(transaction: LedgerTransaction, job: JobId): boolean {
  if (!mayReturn(transaction, job)) return false;
  transaction.isChanged = true;
  return intakeIn(transaction).returning.delete(job);
}
