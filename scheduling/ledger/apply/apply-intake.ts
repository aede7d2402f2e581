/**
 * @file Which requests may wait inside the fleet, which wait outside, and which give way to those. From `BOUNDED_RULES` on.
 *
 * - A request needs bytes as well as a place (transaction-size.ts), and a newcomer leaves other shares theirs (transaction-bytes.ts); without
 *   them it waits outside.
 * - A request has a place if its job was called in (its credit is the place), is inside already, holds a lease, or returns from one. Any other
 *   needs a free place (rules/places.ts), and none before it may wait for that place outside.
 * - A request inside gives way while others of its tenant's share and class wait outside, if it has been inside for `HOPELESS_STAY_MS` and the
 *   fleet can never satisfy it, or for `STALLED_STAY_MS` without a start. Each further round is twice as long, up to a limit. Of the stalled
 *   the youngest go first, so that the head of the queue stays; and a look lets a few go, so rotation stays cheap.
 * - From `JUDGED_ONCE_RULES` on both give way to those alone that the fleet's present description has not judged: a hopeless one that goes stands behind
 *   them (its round is of the description's era), so each goes once for each description. A lobby says how many unjudged ones are first there.
 *   Should that be wrong, the judged take turns as well, after the longest stay.
 * - A credit that nobody has used for a minute is given again: its lobby calls the same job, or passes it on if that job is gone. One that
 *   nobody has used in time is withdrawn: its place is free for another.
 *
 * Cost: O(lobbies) a request; O(requests) a look. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { HOPELESS_CODES } from "../../../domain/values/codes.ts";
import { byCodeUnit, type TenantId } from "../../../domain/values/ids.ts";
import { JOB_CLASSES, type JobClass } from "../../../domain/job/job.ts";
import { eraOf, roundAfter, turnsOf } from "../../../domain/lease/lobby-order.ts";
import type { GangRequest, Lease } from "../../../domain/lease/lease.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { OTHER_TENANTS, type Intake, type LobbyAccount } from "../intake.ts";
import { isSmall, levelFor, shareOf, sumOf } from "../rules/places.ts";
import type { Ledger } from "../ledger.ts";
import { leasesOf } from "./transaction-index.ts";
import {
  announceAgain,
  beginEra,
  endCredit,
  eraIn,
  intakeIn,
  isJudgedOnce,
  isNewsFull,
  mayReturn,
  placesIn,
  putOutside,
  takeReturn,
  withdrawNews,
} from "./transaction-intake.ts";
import { leavesShares } from "./transaction-bytes.ts";
import { putReason, roomBehind } from "./transaction-size.ts";
import { dropRequest } from "./transaction-requests.ts";
import type { LedgerTransaction } from "./transaction.ts";

const HOPELESS_STAY_MS = 10_000;
const STALLED_STAY_MS = 600_000;
/** Doublings at most: about 43 minutes, and 80. */
const MAX_HOPELESS_DOUBLINGS = 8;
const MAX_STALLED_DOUBLINGS = 3;
/** Most that one look lets go of one class in one share. */
const MAX_HOPELESS_AT_ONCE = 64;
const STALLED_PART_AT_ONCE = 1 / 512;
const LOOK_AT_LEAST_AFTER_MS = 10_000;
const LOOK_AT_MOST_AFTER_MS = 60_000;
const CREDIT_LASTS_MS = 600_000;
/** Longer than a job that was called in takes to ask: one that has not may be gone, and its lobby looks. */
const CREDIT_REPEATS_AFTER_MS = 60_000;

/** The request as it waits inside; undefined when it was put outside. */
export function admit(
  transaction: LedgerTransaction,
  request: GangRequest,
  leases: readonly Lease[],
): Omit<PendingRequest, "arrival"> | undefined {
  const { credit, ...rest } = request;
  const { jobId, tenant, round = 0 } = request;
  withdrawNews(transaction, request);
  const isCalled = credit !== undefined && settleCredit(transaction, request, credit);
  const former = transaction.requests.get(jobId);
  const isInside = former?.tenant === tenant && former.class === request.class;
  // First what costs least: most of a flood has no place.
  const mayEnter =
    isCalled ||
    isInside ||
    leases.length > 0 ||
    mayReturn(transaction, jobId) ||
    hasFreePlace(transaction, request);
  const roomBytes = mayEnter ? roomBehind(transaction, rest) : -1;
  const isRoom = roomBytes >= 0;
  const isFew = isSmall(placesIn(transaction), tenant);
  const leavesRoom = isRoom && leavesShares(transaction, tenant, { roomBytes, isFew, isCalled });
  if (isCalled && leavesRoom) return { ...rest, enteredAtMs: transaction.nowMs };
  const isReturning = takeReturn(transaction, jobId) || leases.length > 0;
  if (isInside && isRoom) return { ...rest, ...placeOf(former) };
  if (isRoom && isReturning) return rest;
  if (leavesRoom && hasFreePlace(transaction, request)) return rest;
  if (isNewsFull(transaction, request)) {
    transaction.held.push(request);
    return undefined;
  }
  dropRequest(transaction, jobId);
  putOutside(transaction, rest, round);
  return undefined;
}

/** Its place is the request's from now on; whether there was such a credit. */
export function settleCredit(
  transaction: LedgerTransaction,
  { tenant, class: jobClass }: Pick<GangRequest, "tenant" | "class">,
  credit: number,
): boolean {
  const lobbies = (transaction.intake ?? transaction.before.intake)?.lobbies;
  const lobby = [tenant, OTHER_TENANTS].find(
    (each) => lobbies?.get(each)?.credits.get(credit)?.class === jobClass,
  );
  return lobby !== undefined && endCredit(transaction, lobby, credit);
}

const placeOf = ({
  enteredAtMs,
  round,
}: PendingRequest): Pick<PendingRequest, "enteredAtMs" | "round"> => ({
  ...(enteredAtMs !== undefined && { enteredAtMs }),
  ...(round !== undefined && { round }),
});

/** Nobody overtakes: a place for which others wait outside is theirs, but for the first few of a tenant of which none waits outside. */
function hasFreePlace(transaction: LedgerTransaction, request: GangRequest): boolean {
  const pool = placesIn(transaction);
  const level = levelFor(pool, request, 1);
  if (level === undefined) return false;
  const share = shareOf(pool, request.tenant);
  const { lobbies } = transaction.intake ?? transaction.before.intake ?? { lobbies: [] };
  const mayPass = isSmall(pool, request.tenant);
  for (const [tenant, { waiting }] of lobbies) {
    if (mayPass && tenant !== request.tenant) continue;
    if (level !== "common" && shareOf(pool, tenant) !== share) continue;
    if ((level === "class" ? waiting[request.class] : sumOf(waiting)) > 0) return false;
  }
  return true;
}

/** When to look for requests that have to give way; undefined while nobody waits outside and no credit is out. */
export function nextLookAtMs({ intake }: Ledger): number | undefined {
  return intake === undefined || intake.lobbies.size === 0 ? undefined : intake.lookAtMs;
}

/** Looks, if it is time to. */
export function lookForRoom(transaction: LedgerTransaction): void {
  const { nowMs } = transaction;
  const before: Intake | undefined = transaction.before.intake;
  if (before === undefined || before.lobbies.size === 0 || before.lookAtMs > nowMs) return;
  const intake = intakeIn(transaction);
  for (const [tenant, { credits }] of [...intake.lobbies]) {
    const late = [...credits].filter(
      ([, { givenAtMs }]) => givenAtMs + CREDIT_REPEATS_AFTER_MS <= nowMs,
    );
    for (const [number, { givenAtMs }] of late)
      if (givenAtMs + CREDIT_LASTS_MS <= nowMs) endCredit(transaction, tenant, number);
      else announceAgain(transaction, tenant, number);
  }
  const { leaving, nextAtMs } = leavingNow(transaction);
  for (const { request, isHopeless } of leaving) {
    const { round = 0 } = request;
    const era = isHopeless ? eraIn(transaction) : 0;
    dropRequest(transaction, request.jobId);
    putOutside(
      transaction,
      request,
      isJudgedOnce(transaction) ? roundAfter(round, era) : round + 1,
    );
  }
  intake.lookAtMs = Math.min(
    nowMs + LOOK_AT_MOST_AFTER_MS,
    Math.max(nowMs + LOOK_AT_LEAST_AFTER_MS, nextAtMs),
  );
  transaction.isChanged = true;
}

interface Flow {
  /** Whether the present description has not judged some of them. */
  readonly hasUnjudged: boolean;
  /** Requests that give way for them at most. */
  readonly wanted: number;
  readonly hopeless: PendingRequest[];
  readonly stalled: PendingRequest[];
}

interface Leaving {
  readonly request: PendingRequest;
  readonly isHopeless: boolean;
}

function leavingNow(transaction: LedgerTransaction): {
  readonly leaving: readonly Leaving[];
  readonly nextAtMs: number;
} {
  const { requests, reasons, reservations, nowMs } = transaction;
  const pool = placesIn(transaction);
  const flows = waitedFor(transaction);
  let nextAtMs = Infinity;
  for (const request of requests.values()) {
    const flow = flows.get(flowKey(shareOf(pool, request.tenant), request.class));
    if (flow === undefined || reservations.has(request.jobId)) continue;
    if (leasesOf(transaction, request.jobId).length > 0) continue;
    const code = reasons.get(request.jobId)?.code;
    const isHopeless = code !== undefined && HOPELESS_CODES.has(code);
    const dueAtMs = isJudgedOnce(transaction)
      ? leavesAtMs(request, { isHopeless, isForUnjudged: flow.hasUnjudged })
      : mustLeaveAtMs(request, isHopeless);
    if (dueAtMs > nowMs) nextAtMs = Math.min(nextAtMs, dueAtMs);
    else (isHopeless ? flow.hopeless : flow.stalled).push(request);
  }
  const leaving = [...flows.values()].flatMap(({ wanted, hopeless, stalled }) => {
    const first = hopeless
      .sort((a, b) => enteredAtMs(a) - enteredAtMs(b) || byCodeUnit(a.jobId, b.jobId))
      .slice(0, Math.min(wanted, MAX_HOPELESS_AT_ONCE));
    const most = Math.max(1, Math.floor(STALLED_PART_AT_ONCE * requests.size));
    const then = stalled
      .sort((a, b) => b.submittedAtMs - a.submittedAtMs || b.arrival - a.arrival)
      .slice(0, Math.max(0, Math.min(wanted - first.length, most)));
    return [
      ...first.map((request) => ({ request, isHopeless: true })),
      ...then.map((request) => ({ request, isHopeless: false })),
    ];
  });
  return { leaving, nextAtMs };
}

/**
 * The flows for which jobs without a credit wait outside. A place that one gives up for an unjudged one may go to any lobby and class that waits
 * (rules/credits.ts), so for each as many are wanted as there are of those.
 */
function waitedFor(transaction: LedgerTransaction): ReadonlyMap<string, Flow> {
  const pool = placesIn(transaction);
  const { lobbies } = intakeIn(transaction);
  const counts = new Map<string, { waiting: number; unjudged: number }>();
  let takers = 0;
  for (const [tenant, account] of lobbies) {
    for (const name of JOB_CLASSES) {
      if (account.waiting[name] === 0) continue;
      takers += 1;
      const key = flowKey(shareOf(pool, tenant), name);
      const of = counts.get(key) ?? { waiting: 0, unjudged: 0 };
      counts.set(key, of);
      of.waiting += account.waiting[name];
      of.unjudged += unjudgedIn(transaction, account, name);
    }
  }
  return new Map(
    [...counts].map(([key, { waiting, unjudged }]) => [
      key,
      {
        hasUnjudged: unjudged > 0,
        wanted: unjudged > 0 ? Math.min(waiting, takers * unjudged) : waiting,
        hopeless: [],
        stalled: [],
      },
    ]),
  );
}

/** Who waits there, does not know that its fleet can never satisfy it, and has no credit: about, and all of a lobby that has not said who is first. */
function unjudgedIn(
  transaction: LedgerTransaction,
  { waiting, first }: LobbyAccount,
  name: JobClass,
): number {
  const next = first?.[name];
  if (next === undefined || !isJudgedOnce(transaction)) return waiting[name];
  return eraOf(next.round) < eraIn(transaction) ? Math.min(waiting[name], next.count) : 0;
}

const flowKey = (share: TenantId, jobClass: JobClass): string => `${jobClass} ${share}`;

const enteredAtMs = ({ enteredAtMs: calledAtMs, requestedAtMs }: PendingRequest): number =>
  calledAtMs ?? requestedAtMs;

const mustLeaveAtMs = (request: PendingRequest, isHopeless: boolean): number =>
  enteredAtMs(request) +
  (isHopeless
    ? HOPELESS_STAY_MS * 2 ** Math.min(request.round ?? 0, MAX_HOPELESS_DOUBLINGS)
    : STALLED_STAY_MS * 2 ** Math.min(request.round ?? 0, MAX_STALLED_DOUBLINGS));

/** A hopeless one stays until it is judged; for none but judged ones both stay as long as anybody may. */
function leavesAtMs(
  request: PendingRequest,
  { isHopeless, isForUnjudged }: { readonly isHopeless: boolean; readonly isForUnjudged: boolean },
): number {
  const most = isHopeless ? MAX_HOPELESS_DOUBLINGS : MAX_STALLED_DOUBLINGS;
  const turns = isHopeless ? 0 : Math.min(turnsOf(request.round ?? 0), most);
  const stayMs = isHopeless ? HOPELESS_STAY_MS : STALLED_STAY_MS;
  return enteredAtMs(request) + stayMs * 2 ** (isForUnjudged ? turns : most);
}

/**
 * The fleet has another description: what gave way under the former one may start under this one. Reasons of the former judge nobody; those of a plan that was made
 * before are corrected by the next one, until when nobody gives way.
 */
export function describedAnew(transaction: LedgerTransaction): void {
  if (!isJudgedOnce(transaction)) return;
  for (const [job, { code }] of [...transaction.reasons])
    if (HOPELESS_CODES.has(code)) putReason(transaction, job, undefined);
  if ((transaction.intake ?? transaction.before.intake) === undefined) return;
  beginEra(transaction, eraIn(transaction) + 1);
  intakeIn(transaction).lookAtMs = transaction.nowMs + LOOK_AT_LEAST_AFTER_MS;
}
