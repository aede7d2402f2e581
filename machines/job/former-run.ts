/**
 * @file What a job is told before its first answer is durable: which grants it takes, and what it waits for. A run of its workflow that was reset to its beginning is told
 * of the run before; one whose first task was lost, of its own requests in that task.
 */

import type { RunId } from "../../domain/values/ids.ts";
import { EARLY_NUMBER_RULES } from "../../protocol/control-contract.ts";
import type { Grant } from "../../protocol/job.ts";
import { advanceRequest } from "./fleet-conversation.ts";
import { isGrant } from "./signals.ts";
import type { Job } from "./job-state.ts";
import { awaitFormer } from "./orphan-lease.ts";

/**
 * A reset of the workflow to its beginning tells the new run at once all that the former one was told. The fleet may have freed the leases of
 * that one, and some host of theirs would start them. The answer to `admit` is in history, so a run that was reset to a later point keeps its own.
 * A grant of this run under a later number answers what it asked in a task that was lost: its fleet has heard the end of the numbers before.
 */
export function withoutGrantsOfOthers(
  job: Job,
  { runId, rules }: { readonly runId: RunId; readonly rules: number },
  nowMs: number,
): Job {
  const { grant: _first, retold = [], later, earlyGrants, ...rest } = job;
  const isOwn = (offer: unknown): boolean => isGrant(offer) && offer.lease.runId === runId;
  const own = retold.find((offer) => isOwn(offer) && offer.seq === job.seq);
  const heard: Job = {
    ...rest,
    earlyGrants: earlyGrants.map((offers) =>
      Array.isArray(offers) ? (offers as readonly unknown[]).filter(isOwn) : offers,
    ),
    ...(own !== undefined && { grant: own }),
  };
  const isAhead = later !== undefined && isOwn(later) && rules >= EARLY_NUMBER_RULES;
  const present = isAhead
    ? advanceRequest({ ...heard, seq: later.seq - 1, nextGrant: later })
    : heard;
  return retold
    .filter((offer) => !isOwn(offer))
    .reduce((before, { lease }) => awaitFormer(before, lease, nowMs), present);
}

/** Resets in a row of which a job knows its grants: the last of them are those that may still run. */
const MOST_RETOLD = 8;

/** A grant that comes before the answer to `admit`, whoever it is for. */
export const retell = (job: Job, offer: Grant): Job => ({
  ...job,
  ...(isNewest(job, offer) && { later: offer }),
  retold: [
    ...(job.retold ?? []).filter(({ lease }) => lease.runId !== offer.lease.runId),
    offer,
  ].slice(-MOST_RETOLD),
});

/** Of the grants under later numbers. */
const isNewest = ({ seq, later }: Job, offer: Grant): boolean =>
  offer.seq > seq && (later === undefined || later.lease.grantedAtMs <= offer.lease.grantedAtMs);

/**
 * Whether it was granted before this run began: words that wait for their proof are heard after the admission. A run that was reset to a later point asks
 * again under an id of its own, so the id alone does not tell; and that id is another one where a history is replayed outside its server.
 */
export const isOfFormerRun = ({ entered }: Job, { lease }: Grant): boolean =>
  entered !== undefined && lease.runId !== entered.runId && lease.grantedAtMs < entered.atMs;
