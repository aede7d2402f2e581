/**
 * @file Applies one inbox entry. Entries arrive twice, late and in any order; each is judged against the present ledger.
 *
 * - Requests: a job has at most one. Within a run the higher `seq` counts. Of two runs the newer one is the one with the later request
 *   (`requestedAtMs`, then the greater run id, so that every order of arrival has the same result). A newer run's request replaces the older
 *   run's, whose leases turn vacating on all hosts, because no process of that run is left to confirm.
 *   A request whose run already holds a lease for it (`seq` ≤) is a late copy.
 * - A request of a job array replaces the array's waiting request and leaves its leases alone; a request for no slots only withdraws.
 * - A request that arrives after its own `end` looks like a new one. It may win a grant, which the job answers with a second `end`, or the
 *   delivery with `gone`: the GPUs are free again once their hosts have said that nothing runs.
 * - A registration with a *new* epoch proves that all runs it does not list have stopped, because tasks in the queues of the old epoch
 *   can no longer start anything. A repeated registration may be an old copy and proves nothing; then `vacated` counts. Epochs grow, so a
 *   registration with an older epoch is a late copy and is dropped whole.
 * - A fenced host that answers again may run what its job still asks it for: what the fence has confirmed of held leases counts no longer
 *   (rules 5).
 * - A run that a host reports and the ledger does not know becomes an unconfirmed lease where the GPUs are free, and its job is asked. A
 *   job's own claim confirms it; a claim on GPUs of another lease is orphaned. host-silence.ts handles hosts that do not answer.
 *
 * Entries that cannot be true are refused first (check-entry.ts).
 * Cost: O(leases of the job) an entry, O(leases) a registration.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { HostId, LeaseId, RunId } from "../../../domain/values/ids.ts";
import type { ClosedRun, GangRequest, Lease } from "../../../domain/lease/lease.ts";
import { bury, noteChange, type LedgerTransaction } from "./transaction.ts";
import { setHost } from "./transaction-fleet.ts";
import { indexOf, leasesOf } from "./transaction-index.ts";
import { confirmVacated, putLease, recallVacated, vacate } from "./transaction-leases.ts";
import { admit, settleCredit } from "./apply-intake.ts";
import { applyLobbyReport, letReturn, takeReturn, withdrawNews } from "./transaction-intake.ts";
import { isRoomForHost, isRoomForWord, noteGrowth, putGrant } from "./transaction-size.ts";
import { dropRequest, putRequest } from "./transaction-requests.ts";
import { jsonBytes } from "../size-table.ts";
import { readEntry } from "../inbox-entry.ts";
import type { AgentAddress, InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import {
  BOUNDED_RULES,
  GONE_GRANT_RULES,
  LATE_COPIES_RULES,
  RETURNING_HOSTS_RULES,
  SILENT_STRANGERS_RULES,
  type HostStatus,
} from "../ledger.ts";
import { LATER_ENDS_RULES } from "../upgrade.ts";
import { applyLinks } from "./apply-links.ts";
import { checkEntry, claimedSender, newestEpoch, senderOf } from "./check-entry.ts";
import { awaitReturn, endKept, keepAgain, keepOthers } from "./kept-hosts.ts";
import { adoptLease, assertLease } from "./orphan-leases.ts";
import { applySilence, isOvertaken, withoutSilence } from "./host-silence.ts";

export function applyEntry(transaction: LedgerTransaction, value: unknown, nowMs: number): void {
  const { applyVersion: rules } = transaction.before;
  const read = readEntry(value, rules);
  if (read.kind === "refused") {
    const sender = rules >= BOUNDED_RULES ? claimedSender(value) : undefined;
    bury(transaction, { ...read, nowMs, ...(sender !== undefined && { sender }) });
    return;
  }
  const { entry, json } = read;
  const refusal = rules >= BOUNDED_RULES ? checkEntry(transaction, entry) : undefined;
  if (refusal !== undefined) {
    const sender = senderOf(entry);
    bury(transaction, { ...refusal, json, nowMs, ...(sender !== undefined && { sender }) });
    return;
  }
  switch (entry.kind) {
    case "request":
      return applyRequest(transaction, entry.request);
    case "end":
      return applyEnd(transaction, entry);
    case "assert":
      return assertLease(transaction, entry.lease);
    case "silence":
      return applySilence(transaction, entry, nowMs);
    case "agent-registered":
      return applyRegistration(transaction, entry, { json, nowMs });
    case "agent-deregistered":
      return applyDeregistration(transaction, entry);
    case "checkpointed":
      return applyCheckpoints(transaction, entry.marks, nowMs);
    case "model":
      return applyModel(transaction, entry, { json, nowMs });
    case "links":
      return applyLinks(transaction, entry.links, { json, nowMs });
    case "vacated":
      return applyVacated(transaction, entry);
    case "lobby":
      return applyLobbyReport(transaction, entry);
  }
}

function applyRequest(transaction: LedgerTransaction, request: GangRequest): void {
  const former = transaction.requests.get(request.jobId);
  const leases = leasesOf(transaction, request.jobId);
  // Whoever asks for what a doubted lease would have answered has never had that lease.
  const isDenied = (lease: Lease): boolean =>
    lease.isUnconfirmed === true && lease.seq >= request.seq && lease.slots === undefined;
  const isLate =
    (former !== undefined && !supersedes(request, former)) ||
    isOutdatedOutside(transaction, request) ||
    leases.some((lease) => !supersedes(request, lease) && !isDenied(lease));
  if (isLate) {
    if (request.credit !== undefined) settleCredit(transaction, request, request.credit);
    return;
  }
  for (const lease of leases) {
    if (lease.runId !== request.runId || isDenied(lease)) vacate(transaction, lease, "all");
  }
  if (request.slots === 0) {
    dropRequest(transaction, request.jobId);
    withdrawNews(transaction, request);
    return;
  }
  const { applyVersion } = transaction.before;
  const inside = applyVersion < BOUNDED_RULES ? request : admit(transaction, request, leases);
  if (inside === undefined) return;
  putRequest(transaction, { ...inside, arrival: transaction.nextArrival });
  transaction.nextArrival += 1;
}

/**
 * A newer request of the job waits outside, and its lobby has yet to hear of it. Rows of rules before `KEPT_ROWS_RULES` tell it of the same run alone. Where two runs
 * asked at the same time, a reset run repeats its former one's request, and comes later: nobody would ask it again.
 */
function isOutdatedOutside({ before, intake }: LedgerTransaction, request: GangRequest): boolean {
  const row = (intake ?? before.intake)?.news.get(request.jobId);
  if (row === undefined || before.applyVersion < LATE_COPIES_RULES) return false;
  const { requestedAtMs } = row;
  return row.runId === request.runId
    ? row.seq > request.seq
    : requestedAtMs !== undefined && requestedAtMs > request.requestedAtMs;
}

interface Asked {
  readonly runId: RunId;
  readonly seq: number;
  readonly requestedAtMs: number;
}

function supersedes(a: Asked, b: Asked): boolean {
  if (a.runId === b.runId) return a.seq > b.seq;
  return a.requestedAtMs === b.requestedAtMs
    ? a.runId > b.runId
    : a.requestedAtMs > b.requestedAtMs;
}

function applyEnd(
  transaction: LedgerTransaction,
  { jobId, runId, seq, unconfirmedHosts, lease: only, returns, keepMs, kept }: EndEntry,
): void {
  if (only !== undefined) {
    const lease = transaction.leases.get(only);
    if (lease?.jobId !== jobId || lease.runId !== runId) return;
    if (returns === true) letReturn(transaction, lease);
    vacate(transaction, lease, unconfirmedHosts);
    return;
  }
  const isMeant = (asked: { readonly runId: RunId; readonly seq: number }): boolean =>
    asked.runId === runId && asked.seq <= seq;
  const request = transaction.requests.get(jobId);
  if (request !== undefined && isMeant(request)) dropRequest(transaction, jobId);
  const row = (transaction.intake ?? transaction.before.intake)?.news.get(jobId);
  if (row !== undefined && isMeant(row)) withdrawNews(transaction, row);
  if (returns !== true) takeReturn(transaction, jobId);
  for (const lease of leasesOf(transaction, jobId)) {
    if (!isMeant(lease)) continue;
    if (returns === true) letReturn(transaction, lease);
    if (!isLeftBefore(transaction, lease, seq)) vacate(transaction, lease, unconfirmedHosts);
    if (keepMs !== undefined) keepOthers(transaction, lease, keepMs);
  }
  if (kept !== undefined && keepMs !== undefined) keepAgain(transaction, jobId, { kept, keepMs });
  if (returns !== true && !transaction.requests.has(jobId)) endKept(transaction, jobId);
}

/** The end of a lease has named the hosts that could not confirm it: what those say of the job's next one confirms nothing. */
const isLeftBefore = ({ before }: LedgerTransaction, lease: Lease, seq: number): boolean =>
  before.applyVersion >= LATER_ENDS_RULES && lease.state === "vacating" && lease.seq < seq;

type EndEntry = Extract<InboxEntry, { kind: "end" }>;

function applyRegistration(
  transaction: LedgerTransaction,
  {
    hosts,
    agent,
    running,
    highestToken,
    terms,
    toldAtMs,
  }: Extract<InboxEntry, { kind: "agent-registered" }>,
  origin: { readonly json: string; readonly nowMs: number },
): void {
  const { places } = indexOf(transaction);
  const unknown = hosts.filter((host) => !places.has(host));
  if (unknown.length > 0) {
    const message = `an agent (${agent.address}) says hello for ${unknown.slice(0, 5).join(", ")}, ${unknown.length} of its ${hosts.length} hosts, which the fleet's description lacks; add them to it, then restart the agent`;
    bury(transaction, { code: "HostUnknown", message, ...origin });
  }
  if (highestToken >= transaction.nextToken) {
    transaction.nextToken = highestToken + 1;
    transaction.isChanged = true;
  }
  const renewed = new Set<HostId>();
  const answering = new Set<HostId>();
  const returning = new Set<HostId>();
  for (const host of hosts) {
    if (!places.has(host)) continue;
    const status = transaction.hosts.get(host);
    if (terms !== undefined && agent.epoch < newestEpoch(status, transaction)) continue;
    if (isOvertaken(status, { epoch: agent.epoch, toldAtMs })) continue;
    answering.add(host);
    if (status?.isFenced === true) returning.add(host);
    if (status?.agent?.epoch !== agent.epoch) renewed.add(host);
    const {
      lastEpoch: _is,
      toldAtMs: _told,
      fenceMs,
      ...known
    } = withoutSilence(status ?? { isDrained: false });
    // An agent that has agreed to hold takes the clock of its former terms away; former rules kept it.
    const isKept = terms === undefined || transaction.before.applyVersion < SILENT_STRANGERS_RULES;
    const former = isKept && fenceMs !== undefined ? { fenceMs } : {};
    const next = {
      ...known,
      ...former,
      agent,
      ...(terms !== undefined && termsOf(terms)),
      ...(toldAtMs !== undefined && { toldAtMs }),
    };
    if (isSameStatus(status, next)) continue;
    if (!isRoomForHost(transaction, host, next)) {
      const message = `there is no room for what the agent of ${host} says of itself; shorten its address or the fleet's description`;
      bury(transaction, { code: "LedgerFull", message, ...origin });
      continue;
    }
    setHost(transaction, host, next);
    noteChange(transaction);
  }
  const runs = new Set(running.map(({ host, lease }) => `${host} ${lease}`));
  for (const lease of [...transaction.leases.values()]) {
    const stopped = (lease.vacatingHosts ?? []).filter(
      (host) => renewed.has(host) && !runs.has(`${host} ${lease.id}`),
    );
    if (stopped.length > 0) confirmVacated(transaction, lease, stopped);
    else if (transaction.before.applyVersion >= RETURNING_HOSTS_RULES)
      recallVacated(transaction, lease, returning);
  }
  for (const { host, fact } of running) {
    if (fact !== undefined && answering.has(host)) adoptLease(transaction, fact, host);
  }
}

const termsOf = ({ fenceMs }: { readonly fenceMs?: number }): Pick<HostStatus, "fenceMs"> =>
  fenceMs === undefined ? {} : { fenceMs };

const isSameStatus = (a: HostStatus | undefined, b: HostStatus): boolean =>
  isSameAgent(a?.agent, b.agent) &&
  a?.fenceMs === b.fenceMs &&
  a?.silentSinceMs === undefined &&
  a?.isFenced === undefined &&
  a?.lastEpoch === undefined &&
  a?.toldAtMs === b.toldAtMs;

const isSameAgent = (a: AgentAddress | undefined, b: AgentAddress | undefined): boolean =>
  a !== undefined &&
  a.epoch === b?.epoch &&
  a.runQueue === b.runQueue &&
  a.orderQueue === b.orderQueue &&
  a.address === b.address;

function applyDeregistration(
  transaction: LedgerTransaction,
  { hosts, epoch, toldAtMs }: Extract<InboxEntry, { kind: "agent-deregistered" }>,
): void {
  for (const host of hosts) {
    const status = transaction.hosts.get(host);
    if (status?.agent?.epoch !== epoch || isOvertaken(status, { epoch, toldAtMs })) continue;
    const { agent: _gone, toldAtMs: _told, ...rest } = withoutSilence(status);
    const dated = toldAtMs === undefined ? {} : { toldAtMs };
    const isOrdered = rest.fenceMs !== undefined || toldAtMs !== undefined;
    // A late copy of the registration, which has an earlier date, does not bring this agent back.
    putStatus(transaction, host, isOrdered ? { ...rest, lastEpoch: epoch, ...dated } : rest);
  }
}

/** A host without agent and without any drain is as good as one that was never heard of. */
export function putStatus(transaction: LedgerTransaction, host: HostId, status: HostStatus): void {
  const { agent, isDrained, gpuDrains, isFenced, lastEpoch, silentSinceMs } = status;
  const isQuiet = isFenced !== true && silentSinceMs === undefined;
  const isOpen = !isDrained && gpuDrains === undefined;
  const saysNothing = agent === undefined && isOpen && isQuiet;
  setHost(transaction, host, saysNothing && lastEpoch === undefined ? undefined : status);
  noteChange(transaction);
}

function applyVacated(
  transaction: LedgerTransaction,
  { lease: id, hosts }: { readonly lease: LeaseId; readonly hosts: readonly HostId[] },
): void {
  const lease = transaction.leases.get(id);
  if (lease !== undefined) confirmVacated(transaction, lease, hosts);
}

/** Words of models may overtake each other as well; where GPUs are taken from, and by whom, they do not change. */
function applyModel(
  transaction: LedgerTransaction,
  { cluster, version, generation }: Extract<InboxEntry, { kind: "model" }>,
  origin: { readonly json: string; readonly nowMs: number },
): void {
  if (!transaction.shape.clusters.some(({ id }) => id === cluster)) {
    const message = `a bandwidth model says that ${version} serves in ${cluster}, a cluster that the fleet's description lacks`;
    bury(transaction, { code: "HostUnknown", message, ...origin });
    return;
  }
  if (generation <= (transaction.models.get(cluster)?.generation ?? 0)) return;
  if (!isRoomForWord(transaction, version)) {
    const message = `there is no room for the name of version ${generation} of the bandwidth model of ${cluster}`;
    bury(transaction, { code: "LedgerFull", message, ...origin });
    return;
  }
  noteGrowth(transaction, jsonBytes([cluster, version, generation]));
  transaction.drafts.models.write().set(cluster, { version, generation });
  transaction.isChanged = true;
}

/** Words of checkpoints may overtake each other; none is of the future, and none was written before its lease. */
function applyCheckpoints(
  transaction: LedgerTransaction,
  marks: Extract<InboxEntry, { kind: "checkpointed" }>["marks"],
  nowMs: number,
): void {
  for (const { lease: id, atMs } of marks) {
    const lease = transaction.leases.get(id);
    if (lease === undefined || lease.state === "vacating") continue;
    const checkpointedAtMs = Math.min(atMs, nowMs);
    if (checkpointedAtMs <= (lease.checkpointedAtMs ?? lease.grantedAtMs)) continue;
    putLease(transaction, { ...lease, checkpointedAtMs });
  }
}

/**
 * Reports on grants: a delivered one is held; one whose job is gone waits for its hosts, where an earlier delivery may have had its report lost. Before
 * `GONE_GRANT_RULES` it was released at once if it was not held.
 */
export function applyDelivered(
  transaction: LedgerTransaction,
  { accepted, gone }: { readonly accepted: readonly LeaseId[]; readonly gone: readonly LeaseId[] },
): void {
  for (const id of accepted) {
    const lease = transaction.leases.get(id);
    if (lease?.state !== "granted") continue;
    putLease(transaction, { ...lease, state: "held" });
    putGrant(transaction, lease, undefined);
  }
  for (const id of gone) {
    const lease = transaction.leases.get(id);
    if (lease === undefined || lease.state === "vacating") continue;
    const mayRun = lease.state === "held" || transaction.before.applyVersion >= GONE_GRANT_RULES;
    vacate(transaction, lease, mayRun ? "all" : []);
  }
}

/** Closed runs are never heard of again: what they asked for goes, and what they held is theirs until their hosts say otherwise. */
export function applyAudited(transaction: LedgerTransaction, closed: readonly ClosedRun[]): void {
  for (const { jobId, runId, isReset } of closed) {
    if (transaction.requests.get(jobId)?.runId === runId) {
      dropRequest(transaction, jobId);
      if (isReset === true) awaitReturn(transaction, jobId);
      else endKept(transaction, jobId);
    }
    for (const lease of leasesOf(transaction, jobId)) {
      if (lease.runId === runId && lease.state !== "vacating") vacate(transaction, lease, "all");
    }
  }
}
