/**
 * @file What one inbox entry changes. Entries arrive twice, late and in any order; each is judged against the ledger as it is.
 *
 * - Requests: a job has one at most. Within a run the higher `seq` rules. Of two runs the newer is the one whose request was
 *   made later (`requestedAtMs`, then the greater run id, so that every order of arrival ends alike). A newer run's request
 *   takes the place of the older's, whose leases turn vacating on all hosts: nobody of that run is left to confirm.
 *   A request that its run already holds a lease for (`seq` ≤) is a late copy.
 * - A request that arrives after its own `end` cannot be told from a new one. It may win a grant, which its job answers with
 *   `end` again, or the delivery with `gone`: it costs a moment, nothing is lost.
 * - A hello of a *new* epoch proves that what its hosts do not list has stopped, because tasks in the old epoch's queues can start
 *   nothing any more. A repeated hello may be an old copy and proves nothing; then `vacated` is the word that counts.
 *
 * Cost: O(leases of the job) an entry, O(leases) a hello.
 */

import type { HostId, LeaseId, RunId } from "../domain/ids.ts";
import type { GangRequest } from "../domain/lease.ts";
import {
  bury,
  confirmVacated,
  dropRequest,
  indexOf,
  leasesOf,
  noteChange,
  putRequest,
  vacate,
  type Draft,
} from "./draft.ts";
import { readEntry } from "./inbox-entry.ts";
import type { AgentAddress, HostStanding, InboxEntry } from "./ledger.ts";

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
    case "agent-hello":
      return applyHello(draft, entry, { json, nowMs });
    case "agent-bye":
      return applyBye(draft, entry);
    case "vacated":
      return applyVacated(draft, entry);
  }
}

function applyRequest(draft: Draft, request: GangRequest): void {
  const former = draft.requests.get(request.jobId);
  const leases = leasesOf(draft, request.jobId);
  if (former !== undefined && !supersedes(request, former)) return;
  if (leases.some((lease) => !supersedes(request, lease))) return;
  for (const lease of leases) {
    if (lease.runId !== request.runId)
      vacate(
        draft,
        lease,
        lease.gpus.map(({ host }) => host),
      );
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
  { jobId, runId, seq, unconfirmedHosts }: Extract<InboxEntry, { kind: "end" }>,
): void {
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
  { hosts, agent, running, highestToken }: Extract<InboxEntry, { kind: "agent-hello" }>,
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
  for (const host of hosts) {
    if (!places.has(host)) continue;
    const standing = draft.hosts.get(host);
    if (standing?.agent?.epoch !== agent.epoch) renewed.add(host);
    if (isSameAgent(standing?.agent, agent)) continue;
    draft.hosts.set(host, { ...(standing ?? { isDrained: false }), agent });
    noteChange(draft);
  }
  const runs = new Set(running.map(({ host, lease }) => `${host} ${lease}`));
  for (const lease of [...draft.leases.values()]) {
    const stopped = (lease.vacatingHosts ?? []).filter(
      (host) => renewed.has(host) && !runs.has(`${host} ${lease.id}`),
    );
    if (stopped.length > 0) confirmVacated(draft, lease, stopped);
  }
}

const isSameAgent = (a: AgentAddress | undefined, b: AgentAddress): boolean =>
  a?.epoch === b.epoch &&
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
    const { agent: _gone, ...rest } = standing;
    putStanding(draft, host, rest);
  }
}

/** A host without agent and without drain is as good as one that was never heard of. */
export function putStanding(draft: Draft, host: HostId, standing: HostStanding): void {
  if (standing.agent === undefined && !standing.isDrained) draft.hosts.delete(host);
  else draft.hosts.set(host, standing);
  noteChange(draft);
}

function applyVacated(
  draft: Draft,
  { lease: id, hosts }: { readonly lease: LeaseId; readonly hosts: readonly HostId[] },
): void {
  const lease = draft.leases.get(id);
  if (lease !== undefined) confirmVacated(draft, lease, hosts);
}

/** Reports on grants: a delivered one is held; one whose job is gone is released, or waits for its hosts if it was held. */
export function applyDelivered(
  draft: Draft,
  { accepted, gone }: { readonly accepted: readonly LeaseId[]; readonly gone: readonly LeaseId[] },
): void {
  for (const id of accepted) {
    const lease = draft.leases.get(id);
    if (lease?.state !== "granted") continue;
    draft.leases.set(id, { ...lease, state: "held" });
    draft.outbox.delete(id);
    draft.isChanged = true;
  }
  for (const id of gone) {
    const lease = draft.leases.get(id);
    if (lease === undefined || lease.state === "vacating") continue;
    vacate(draft, lease, lease.state === "held" ? lease.gpus.map(({ host }) => host) : []);
  }
}
