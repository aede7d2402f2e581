/** @file What a run of a job's workflow that was reset to its beginning is told of the run before: which grants it takes, and what it waits for. */

import type { RunId } from "../../domain/values/ids.ts";
import type { Grant } from "../../protocol/job.ts";
import { isGrant } from "./signals.ts";
import type { Job } from "./job-state.ts";
import { awaitFormer } from "./orphan-lease.ts";

/**
 * A reset of the workflow to its beginning tells the new run at once all that the former one was told. The fleet may have freed the leases of
 * that one, and some host of theirs would start them. The answer to `admit` is in history, so a run that was reset to a later point keeps its own.
 */
export function withoutGrantsOfOthers(job: Job, runId: RunId, nowMs: number): Job {
  const { grant: _first, retold = [], earlyGrants, ...rest } = job;
  const isOwn = (offer: unknown): boolean => isGrant(offer) && offer.lease.runId === runId;
  const own = retold.find((offer) => isOwn(offer) && offer.seq === job.seq);
  const heard: Job = {
    ...rest,
    earlyGrants: earlyGrants.map((offers) =>
      Array.isArray(offers) ? (offers as readonly unknown[]).filter(isOwn) : offers,
    ),
    ...(own !== undefined && { grant: own }),
  };
  return retold
    .filter((offer) => !isOwn(offer))
    .reduce((before, { lease }) => awaitFormer(before, lease, nowMs), heard);
}

/** Resets in a row of which a job knows its grants: the last of them are those that may still run. */
const MOST_RETOLD = 8;

/** A grant that comes before the answer to `admit`, whoever it is for. */
export const retell = (job: Job, offer: Grant): Job => ({
  ...job,
  retold: [
    ...(job.retold ?? []).filter(({ lease }) => lease.runId !== offer.lease.runId),
    offer,
  ].slice(-MOST_RETOLD),
});

/**
 * Whether it was granted before this run began: words that wait for their proof are heard after the admission. A run that was reset to a later point asks
 * again under an id of its own, so the id alone does not tell; and that id is another one where a history is replayed outside its server.
 */
export const isOfFormerRun = ({ entered }: Job, { lease }: Grant): boolean =>
  entered !== undefined && lease.runId !== entered.runId && lease.grantedAtMs < entered.atMs;
