/**
 * @file Leases that the ledger does not know and somebody tells of: agents that run them, jobs that claim them.
 *
 * A ledger is lost when its fleet was terminated; a fence forgets what a host goes on running when the fence was wrong. What an
 * agent runs is taken in, for its own host, as held and doubted, so that nobody else gets the GPUs: its job is asked, and says
 * `assert` or `end`. What a job claims is taken in whole. Never are GPUs taken that another lease has: there the claim is
 * disowned, and the higher token on the host keeps order. A lease of a run that its job has left behind is vacated at once.
 * Tokens go on above every one that was heard of.
 * Cost: O(leases) for each lease that is new.
 */

import { byCodeUnit, token, type HostId } from "../domain/ids.ts";
import type { HostGpus, Lease, LeaseFact } from "../domain/lease.ts";
import { dropRequest, indexOf, leasesOf, noteChange, putLease, type Draft } from "./draft.ts";
import { takenGpus } from "./usage.ts";

/** A host says that it runs this lease. */
export function adoptLease(draft: Draft, fact: LeaseFact, host: HostId): void {
  const known = draft.leases.get(fact.id);
  const part = fact.gpus.find((gpus) => gpus.host === host);
  if (part === undefined) return;
  if (known === undefined) {
    if (!isFree(draft, fact, [part])) return;
    if (isLeftBehind(draft, fact))
      insertLease(draft, { ...fact, gpus: [part], state: "vacating", vacatingHosts: [host] });
    else {
      insertLease(draft, { ...fact, gpus: [part], state: "held", isDoubted: true });
      dropAnswered(draft, fact);
    }
    return;
  }
  if (known.jobId !== fact.jobId || known.runId !== fact.runId) return;
  const isOurs = known.gpus.some((gpus) => gpus.host === host);
  if (isOurs) {
    // Whoever vouched that nothing runs there was wrong.
    if (known.vacatedHosts?.includes(host) === true) putLease(draft, recalled(known, host));
    return;
  }
  if (known.isDoubted === true && isFree(draft, fact, [part]))
    putLease(draft, { ...known, gpus: sorted([...known.gpus, part]) });
}

/** A job says that it runs on this lease. */
export function assertLease(draft: Draft, fact: LeaseFact): void {
  const known = draft.leases.get(fact.id);
  if (known !== undefined && known.isDoubted !== true) {
    if (known.jobId !== fact.jobId) draft.disowned.push(fact);
    return;
  }
  const isKnownOfOther =
    known !== undefined && (known.jobId !== fact.jobId || known.runId !== fact.runId);
  if (isLeftBehind(draft, fact) || isKnownOfOther || !isFree(draft, fact, fact.gpus)) {
    draft.disowned.push(fact);
    return;
  }
  const { isDoubted: _settled, ...rest } = known ?? { ...fact, state: "held" as const };
  insertLease(draft, { ...rest, gpus: fact.gpus, state: "held" });
  dropAnswered(draft, fact);
}

/** Another run of the job is in force. */
function isLeftBehind(draft: Draft, { jobId, runId }: LeaseFact): boolean {
  const request = draft.requests.get(jobId);
  if (request !== undefined && request.runId !== runId) return true;
  return leasesOf(draft, jobId).some(
    (lease) => lease.runId !== runId && lease.state !== "vacating",
  );
}

/** The request that this lease has answered is a late copy; what an array still wants waits on under the same number. */
function dropAnswered(draft: Draft, { jobId, runId, seq }: LeaseFact): void {
  const request = draft.requests.get(jobId);
  if (request?.runId !== runId) return;
  const answeredUpTo = request.slots === undefined ? seq : seq - 1;
  if (request.seq <= answeredUpTo) dropRequest(draft, jobId);
}

/** Leases lie in the order of their tokens. */
function insertLease(draft: Draft, lease: Lease): void {
  draft.nextToken = Math.max(draft.nextToken, lease.token + 1);
  putLease(draft, lease);
  const later = [...draft.leases.values()].filter((other) => other.token > lease.token);
  // The same leases, only behind the new one.
  for (const other of later) {
    draft.leases.delete(other.id);
    draft.leases.set(other.id, other);
  }
  noteChange(draft);
}

/** Whether no other lease has any of the GPUs, and the fleet has the hosts. */
function isFree(draft: Draft, fact: LeaseFact, gpus: readonly HostGpus[]): boolean {
  const { places } = indexOf(draft);
  if (gpus.some(({ host }) => !places.has(host))) return false;
  for (const lease of draft.leases.values()) {
    if (lease.id === fact.id) continue;
    for (const { host, mask } of takenGpus(lease)) {
      if (gpus.some((part) => part.host === host && (part.mask & mask) !== 0)) return false;
    }
  }
  return true;
}

function recalled(lease: Lease, host: HostId): Lease {
  const { vacatedHosts = [], ...rest } = lease;
  const left = vacatedHosts.filter((other) => other !== host);
  return left.length === 0 ? rest : { ...rest, vacatedHosts: left };
}

const sorted = (gpus: readonly HostGpus[]): readonly HostGpus[] =>
  [...gpus].sort((a, b) => byCodeUnit(a.host, b.host));

/** How far a fleet that has lost its ledger counts on, beyond what it knows: grants may be on their way that no agent has seen. */
export const LOST_LEDGER_TOKENS = 2 ** 20;

export const tokenAfterLoss = (nextToken: number): number => token(nextToken + LOST_LEDGER_TOKENS);
