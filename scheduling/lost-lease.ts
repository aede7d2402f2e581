/**
 * @file Leases that the ledger does not know and somebody tells of: agents that run them, jobs that claim them.
 *
 * A ledger is lost when its fleet was terminated; a fence forgets what a host goes on running when the fence was wrong. What an
 * agent runs is taken in, for its own host, as held and doubted, so that nobody else gets the GPUs: its job is asked, and says
 * `assert` or `end`. What a job claims is taken in whole. Never are GPUs taken that another lease has: there the claim is
 * disowned, and the higher token on the host keeps order. Tokens go on above every one that was heard of.
 * Cost: O(leases) for each lease that is new.
 */

import { byCodeUnit, token, type HostId } from "../domain/ids.ts";
import type { HostGpus, Lease, LeaseFact } from "../domain/lease.ts";
import { indexOf, leasesOf, noteChange, putLease, type Draft } from "./draft.ts";
import { takenGpus } from "./usage.ts";

/** A host says that it runs this lease. */
export function adoptLease(draft: Draft, fact: LeaseFact, host: HostId): void {
  const known = draft.leases.get(fact.id);
  const part = fact.gpus.find((gpus) => gpus.host === host);
  if (part === undefined) return;
  if (known === undefined) {
    if (isFree(draft, fact, [part]))
      insertLease(draft, { ...fact, gpus: [part], state: "held", isDoubted: true });
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
  const isSuperseded = leasesOf(draft, fact.jobId).some(({ runId }) => runId !== fact.runId);
  const isKnownOfOther = known !== undefined && known.jobId !== fact.jobId;
  if (isSuperseded || isKnownOfOther || !isFree(draft, fact, fact.gpus)) {
    draft.disowned.push(fact);
    return;
  }
  const { isDoubted: _settled, ...rest } = known ?? { ...fact, state: "held" as const };
  insertLease(draft, { ...rest, gpus: fact.gpus, state: "held" });
  const request = draft.requests.get(fact.jobId);
  // The request that this lease has answered is as lost as the ledger that knew it.
  if (request?.runId === fact.runId && request.seq <= fact.seq && request.slots === undefined) {
    draft.requests.delete(fact.jobId);
    draft.reasons.delete(fact.jobId);
  }
}

/** Leases lie in the order of their tokens. */
function insertLease(draft: Draft, lease: Lease): void {
  draft.nextToken = Math.max(draft.nextToken, lease.token + 1);
  putLease(draft, lease);
  const later = [...draft.leases.values()].filter((other) => other.token > lease.token);
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
