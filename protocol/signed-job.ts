/**
 * @file What a submitter signs of a job, and where the signature stands: all that decides which processes run, in the words of the order
 * to a host.
 *
 * Not signed: where it runs and how often, which the fleet decides; the launch extras, which hosts restrict by themselves; labels, which no host
 * reads.
 */

import type { Dependency } from "../domain/job/dependency.ts";
import type { JobSpec } from "../domain/job/job.ts";
import type { RunOrder } from "./agent-contract.ts";
import { AMENDED_MEMO, MAX_PROOFS } from "./job-orders.ts";

/** Memo of the job's workflow. */
export const PROOF_MEMO = "orbweaverProof";

/** The signatures of a job, the first one first: what runs may have been started under each. */
export function proofsIn(memo: Readonly<Record<string, unknown>>): readonly unknown[] {
  const amended = memo[AMENDED_MEMO];
  const later: readonly unknown[] = Array.isArray(amended) ? amended.slice(-MAX_PROOFS) : [];
  return [memo[PROOF_MEMO], ...later];
}

/** What a reader of output signs, in the memo of the log session. */
export const READER_CONTENT = Object.freeze({ reads: "output" });

/** A signature is good for a workflow that started this close to it, by the server's clock: later it is a replay. */
export const PROOF_AGE_MS = 600_000;

export interface SignedContent {
  readonly name: string;
  readonly tenant: string;
  readonly run: RunOrder["run"];
  readonly model?: string;
  readonly batch?: number;
  readonly timeLimitMs?: number;
  readonly after?: readonly Dependency[];
  readonly mayFollowFailure?: true;
}

export const contentOfSpec = (spec: JobSpec): SignedContent => ({
  name: spec.name,
  tenant: spec.tenant,
  run: spec.run,
  ...(spec.model !== undefined && { model: spec.model }),
  ...(spec.batch !== undefined && { batch: spec.batch }),
  ...(spec.timeLimitMs !== undefined && { timeLimitMs: spec.timeLimitMs }),
  ...(spec.after !== undefined && { after: spec.after }),
  ...(spec.mayFollowFailure === true && { mayFollowFailure: true }),
});

export const contentOfOrder = (order: RunOrder): SignedContent => ({
  name: order.jobName,
  tenant: order.holder.tenant,
  run: order.run,
  ...(order.model !== undefined && { model: order.model }),
  ...(order.batch !== undefined && { batch: order.batch }),
  ...(order.timeLimitMs !== undefined && { timeLimitMs: order.timeLimitMs }),
  ...(order.after !== undefined && { after: order.after }),
  ...(order.mayFollowFailure === true && { mayFollowFailure: true }),
});
