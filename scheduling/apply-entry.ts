/**
 * @file What one inbox entry changes. Entries arrive twice, late and in any order; each is judged against the ledger as it is.
 *
 * - Requests: a job has one at most. Within a run the higher `seq` rules. Of two runs the newer is the one whose request was
 *   made later (`requestedAtMs`, then the greater run id, so that every order of arrival ends alike). A newer run's request
 *   takes the place of the older's, whose leases turn vacating on all hosts: nobody of that run is left to confirm.
 *   A request that its run already holds a lease for (`seq` ≤) is a late copy.
 * - A request of a job array supersedes what the array waited with, and leaves its leases alone; one for no slots only withdraws.
 * - A request that arrives after its own `end` cannot be told from a new one. It may win a grant, which its job answers with
 *   `end` again, or the delivery with `gone`: it costs a moment, nothing is lost.
 * - A hello of a *new* epoch proves that what its hosts do not list has stopped, because tasks in the old epoch's queues can start
 *   nothing any more. A repeated hello may be an old copy and proves nothing; then `vacated` is the word that counts. Epochs grow, so
 *   the hello of an older one is a late copy and is dropped whole.
 * - What a host runs and the ledger does not know is taken in, doubted, where the GPUs are free: its job will be asked. A job's
 *   own claim settles the doubt; a claim on GPUs that are another's is disowned. See silence.ts for hosts that do not answer.
 *
 * Cost: O(leases of the job) an entry, O(leases) a hello.
 */

import type { HostId, JobId, LeaseId, RunId } from "../domain/ids.ts";
import type { GangRequest, Lease } from "../domain/lease.ts";
import {
  bury,
  confirmVacated,
  dropRequest,
  indexOf,
  leasesOf,
  noteChange,
  putLease,
  putRequest,
  setHost,
  vacate,
  type Draft,
} from "./draft.ts";
import { readEntry } from "./inbox-entry.ts";
import type { AgentAddress, HostStanding, InboxEntry } from "./ledger.ts";
import { applyLinks } from "./apply-links.ts";
import { adoptLease, assertLease } from "./lost-lease.ts";
import { applySilence, withoutSilence } from "./silence.ts";

export function applyEntry(draft: Draft, value: unknown, nowMs: number): void {
  const read = readEntry(value);
  if (read.kind === "refused") {
    bury(draft, { ...read, nowMs });
    return;
  }
  const { entry, json } = read;
  switch (entry.kind) {
    case "request":
      return applyRequest(draft, entry.request);
    case "end":
      return applyEnd(draft, entry);
    case "assert":
      return assertLease(draft, entry.lease);
    case "silence":
      return applySilence(draft, entry, nowMs);
    case "agent-hello":
      return applyHello(draft, entry, { json, nowMs });
    case "agent-bye":
      return applyBye(draft, entry);
    case "checkpointed":
      return applyCheckpoints(draft, entry.marks, nowMs);
    case "model":
      return applyModel(draft, entry, { json, nowMs });
    case "links":
      return applyLinks(draft, entry.links, { json, nowMs });
    case "vacated":
      return applyVacated(draft, entry);
  }
}

function applyRequest(draft: Draft, request: GangRequest): void {
  const former = draft.requests.get(request.jobId);
  const leases = leasesOf(draft, request.jobId);
  if (former !== undefined && !supersedes(request, former)) return;
  // Whoever asks for what a doubted lease would have answered has never had that lease.
  const isDenied = (lease: Lease): boolean =>
    lease.isDoubted === true && lease.seq >= request.seq && lease.slots === undefined;
  if (leases.some((lease) => !supersedes(request, lease) && !isDenied(lease))) return;
  for (const lease of leases) {
    if (lease.runId !== request.runId || isDenied(lease)) vacate(draft, lease, "all");
  }
  if (request.slots === 0) {
    dropRequest(draft, request.jobId);
    return;
  }
  putRequest(draft, { ...request, arrival: draft.nextArrival });
  draft.nextArrival += 1;
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
  draft: Draft,
  { jobId, runId, seq, unconfirmedHosts, lease: only }: Extract<InboxEntry, { kind: "end" }>,
): void {
  if (only !== undefined) {
    const lease = draft.leases.get(only);
    if (lease?.jobId === jobId && lease.runId === runId) vacate(draft, lease, unconfirmedHosts);
    return;
  }
  const isMeant = (asked: { readonly runId: RunId; readonly seq: number }): boolean =>
    asked.runId === runId && asked.seq <= seq;
  const request = draft.requests.get(jobId);
  if (request !== undefined && isMeant(request)) dropRequest(draft, jobId);
  for (const lease of leasesOf(draft, jobId)) {
    if (isMeant(lease)) vacate(draft, lease, unconfirmedHosts);
  }
}

function applyHello(
  draft: Draft,
  { hosts, agent, running, highestToken, terms }: Extract<InboxEntry, { kind: "agent-hello" }>,
  origin: { readonly json: string; readonly nowMs: number },
): void {
  const { places } = indexOf(draft);
  const unknown = hosts.filter((host) => !places.has(host));
  if (unknown.length > 0) {
    const message = `an agent (${agent.address}) says hello for ${unknown.slice(0, 5).join(", ")}, ${unknown.length} of its ${hosts.length} hosts, which the fleet's description lacks; add them to it, then restart the agent`;
    bury(draft, { code: "HostUnknown", message, ...origin });
  }
  if (highestToken >= draft.nextToken) {
    draft.nextToken = highestToken + 1;
    draft.isChanged = true;
  }
  const renewed = new Set<HostId>();
  const answering = new Set<HostId>();
  for (const host of hosts) {
    if (!places.has(host)) continue;
    const standing = draft.hosts.get(host);
    if (terms !== undefined && agent.epoch < newestEpoch(standing)) continue;
    answering.add(host);
    if (standing?.agent?.epoch !== agent.epoch) renewed.add(host);
    const { lastEpoch: _is, ...known } = withoutSilence(standing ?? { isDrained: false });
    const next = { ...known, agent, ...(terms !== undefined && termsOf(terms)) };
    if (isSameStanding(standing, next)) continue;
    setHost(draft, host, next);
    noteChange(draft);
  }
  const runs = new Set(running.map(({ host, lease }) => `${host} ${lease}`));
  for (const lease of [...draft.leases.values()]) {
    const stopped = (lease.vacatingHosts ?? []).filter(
      (host) => renewed.has(host) && !runs.has(`${host} ${lease.id}`),
    );
    if (stopped.length > 0) confirmVacated(draft, lease, stopped);
  }
  for (const { host, fact } of running) {
    if (fact !== undefined && answering.has(host)) adoptLease(draft, fact, host);
  }
}

const newestEpoch = (standing: HostStanding | undefined): string =>
  standing?.agent?.epoch ?? standing?.lastEpoch ?? "";

const termsOf = ({ fenceMs }: { readonly fenceMs?: number }): Pick<HostStanding, "fenceMs"> =>
  fenceMs === undefined ? {} : { fenceMs };

const isSameStanding = (a: HostStanding | undefined, b: HostStanding): boolean =>
  isSameAgent(a?.agent, b.agent) &&
  a?.fenceMs === b.fenceMs &&
  a?.silentSinceMs === undefined &&
  a?.isFenced === undefined &&
  a?.lastEpoch === undefined;

const isSameAgent = (a: AgentAddress | undefined, b: AgentAddress | undefined): boolean =>
  a !== undefined &&
  a.epoch === b?.epoch &&
  a.runQueue === b.runQueue &&
  a.orderQueue === b.orderQueue &&
  a.address === b.address;

function applyBye(
  draft: Draft,
  { hosts, epoch }: Extract<InboxEntry, { kind: "agent-bye" }>,
): void {
  for (const host of hosts) {
    const standing = draft.hosts.get(host);
    if (standing?.agent?.epoch !== epoch) continue;
    const { agent: _gone, ...rest } = withoutSilence(standing);
    // Agents that know of presence have epochs in order: a late copy of the hello must not bring this one back.
    putStanding(draft, host, rest.fenceMs === undefined ? rest : { ...rest, lastEpoch: epoch });
  }
}

/** A host without agent and without drain is as good as one that was never heard of. */
export function putStanding(draft: Draft, host: HostId, standing: HostStanding): void {
  const { agent, isDrained, isFenced, lastEpoch } = standing;
  const saysNothing = agent === undefined && !isDrained && isFenced !== true;
  setHost(draft, host, saysNothing && lastEpoch === undefined ? undefined : standing);
  noteChange(draft);
}

function applyVacated(
  draft: Draft,
  { lease: id, hosts }: { readonly lease: LeaseId; readonly hosts: readonly HostId[] },
): void {
  const lease = draft.leases.get(id);
  if (lease !== undefined) confirmVacated(draft, lease, hosts);
}

/** Words of models may overtake each other as well; where GPUs are taken from, and by whom, they do not change. */
function applyModel(
  draft: Draft,
  { cluster, version, generation }: Extract<InboxEntry, { kind: "model" }>,
  origin: { readonly json: string; readonly nowMs: number },
): void {
  if (!draft.shape.clusters.some(({ id }) => id === cluster)) {
    const message = `a bandwidth model says that ${version} serves in ${cluster}, a cluster that the fleet's description lacks`;
    bury(draft, { code: "HostUnknown", message, ...origin });
    return;
  }
  if (generation <= (draft.models.get(cluster)?.generation ?? 0)) return;
  draft.models.set(cluster, { version, generation });
  draft.isChanged = true;
}

/** Words of checkpoints may overtake each other; none is of the future, and none was written before its lease. */
function applyCheckpoints(
  draft: Draft,
  marks: Extract<InboxEntry, { kind: "checkpointed" }>["marks"],
  nowMs: number,
): void {
  for (const { lease: id, atMs } of marks) {
    const lease = draft.leases.get(id);
    if (lease === undefined || lease.state === "vacating") continue;
    const checkpointedAtMs = Math.min(atMs, nowMs);
    if (checkpointedAtMs <= (lease.checkpointedAtMs ?? lease.grantedAtMs)) continue;
    putLease(draft, { ...lease, checkpointedAtMs });
  }
}

/** Reports on grants: a delivered one is held; one whose job is gone is released, or waits for its hosts if it was held. */
export function applyDelivered(
  draft: Draft,
  { accepted, gone }: { readonly accepted: readonly LeaseId[]; readonly gone: readonly LeaseId[] },
): void {
  for (const id of accepted) {
    const lease = draft.leases.get(id);
    if (lease?.state !== "granted") continue;
    putLease(draft, { ...lease, state: "held" });
    draft.outbox.delete(id);
  }
  for (const id of gone) {
    const lease = draft.leases.get(id);
    if (lease === undefined || lease.state === "vacating") continue;
    vacate(draft, lease, lease.state === "held" ? "all" : []);
  }
}

/** Closed runs are never heard of again: what they asked for goes, and what they held is theirs until their hosts say otherwise. */
export function applyAudited(
  draft: Draft,
  closed: readonly { readonly jobId: JobId; readonly runId: RunId }[],
): void {
  for (const { jobId, runId } of closed) {
    if (draft.requests.get(jobId)?.runId === runId) dropRequest(draft, jobId);
    for (const lease of leasesOf(draft, jobId)) {
      if (lease.runId === runId && lease.state !== "vacating") vacate(draft, lease, "all");
    }
  }
}
