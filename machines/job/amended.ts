/**
 * @file Changes the settings of a job that waits or runs: what the order says, whether the job can take it, and what follows at its fleet.
 *
 * A waiting job asks anew, under the next number, with its old age and its old request time: the fleet puts the request in the place of the
 * former one, and a grant for that is stale. It asks a moment later, because an update is durable only once its workflow task is, and the fleet
 * must not hear of it before. A run goes on as it was started, since hosts and ledger were told its terms; its next request has the new ones.
 * Tenant and time limit are signed. So the author signs the job anew, for this run of the workflow, beside the first signature: a host that
 * adopts what runs already asks for that one.
 */

import { amendSpec, readChanges, type ChangedSetting } from "../../domain/job/amendment.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { authorIn, MAX_PROOFS } from "../../protocol/job-orders.ts";
import type { AmendAnswer } from "../../protocol/job.ts";
import { isFields } from "../../lib/fields.ts";
import type { Step } from "../machine.ts";
import { quiet } from "../steps.ts";
import type { AmendedSoFar, Job, JobCommand, SearchMark } from "./job-state.ts";
import { notAllowed, type OrderRefusal } from "./order-refusal.ts";
import { exitOf } from "./outside.ts";
import { withoutPending } from "./waiting.ts";

/** Of a job and of an array. */
export interface Amendable {
  readonly jobId: JobId;
  readonly spec?: JobSpec;
  readonly submittedAtMs: number;
  readonly amended: AmendedSoFar;
}

export interface ReadAmendment {
  readonly spec: JobSpec;
  readonly changes: readonly ChangedSetting[];
  readonly by: string;
  readonly proof?: string;
}

export const NOT_AMENDED: AmendedSoFar = { count: 0, last: [], proofs: [] };

const SHOWN_AMENDMENTS = 20;
const MAX_PROOF_CHARS = 4_096;

/** What the order makes of the job, or why it makes nothing of it. */
export function readAmendment(
  { jobId, spec, submittedAtMs, amended }: Amendable,
  order: unknown,
  nowMs: number,
): ReadAmendment | OrderRefusal {
  const bad = (message: string): OrderRefusal => ({ code: "BAD_INPUT", message });
  const by = authorIn(order);
  if (!isFields(order) || by === undefined) return bad("the order names no author");
  const { proof } = order;
  if (proof !== undefined && !(typeof proof === "string" && proof.length <= MAX_PROOF_CHARS))
    return bad("the order's signature has another form");
  const read = readChanges(order["changes"]);
  if ("problem" in read) return bad(`job ${jobId} cannot be changed so: ${read.problem}`);
  if (spec === undefined) return notAllowed(`job ${jobId} is still being read. Try again.`);
  if (order["basis"] !== amended.count)
    return notAllowed(`job ${jobId} was changed by somebody else meanwhile. Look at it again.`);
  const made = amendSpec(spec, read.changes);
  if (made.kind === "refused") return bad(`job ${jobId} cannot be changed so: ${made.problem}`);
  const { deadlineMs } = read.changes;
  if (deadlineMs !== undefined && submittedAtMs + deadlineMs <= nowMs)
    return bad(
      `the deadline of job ${jobId} would have passed: it counts from the submission, ${String(Math.floor((nowMs - submittedAtMs) / 1000))} s ago.`,
    );
  return { spec: made.spec, changes: made.changes, by, ...(proof !== undefined && { proof }) };
}

/** The same for a job that is no array, with what its stage forbids. */
export function readJobAmendment(
  job: Job,
  order: unknown,
  nowMs: number,
): ReadAmendment | OrderRefusal {
  const read = readAmendment(job, order, nowMs);
  if ("code" in read) return read;
  const { jobId, reason, stage, grant } = job;
  if (reason !== undefined) return notAllowed(`job ${jobId} is being ended`);
  if (isChanged(read, "tenant") && grant !== undefined)
    return notAllowed(
      `job ${jobId} runs at the cost of its tenant. Requeue or suspend it first, then change the tenant.`,
    );
  // A grant may have come while the stage is still that of the request: its ticket names the content as it was.
  const isStarting = grant !== undefined && stage.kind !== "running" && stage.kind !== "settling";
  if (isChanged(read, "timeLimitMs") && isStarting)
    return notAllowed(`job ${jobId} is just being started. Try again.`);
  return read;
}

export const isChanged = ({ changes }: ReadAmendment, name: ChangedSetting["setting"]): boolean =>
  changes.some(({ setting }) => setting === name);

/** The new settings wait for the next request of a job that has what it asked for. */
export const amendAnswer = ({ shown, grant }: Job, { changes }: ReadAmendment): AmendAnswer => ({
  state: shown,
  changes,
  isForNextRun: grant !== undefined,
});

export function amendJob(job: Job, order: unknown, nowMs: number): Step<Job, JobCommand> {
  const read = readJobAmendment(job, order, nowMs);
  if ("code" in read || read.changes.length === 0 || job.spec === undefined) return quiet(job);
  const { spec } = read;
  const { amended, commands } = noted(job.amended, read, nowMs);
  const { stage, grant, seq } = job;
  const isAsked = grant === undefined && (stage.kind === "asking" || stage.kind === "waiting");
  const changed: Job = {
    ...job,
    spec,
    amended,
    ...(isChanged(read, "tenant") && {
      // A job that is held, or waits for others, makes its next request under its present number.
      tenantBefore: { upTo: job.hasRequest ? seq : seq - 1, tenant: job.spec.tenant },
    }),
  };
  if (!isAsked) return { state: changed, commands };
  const asking = { ...withoutPending(changed), seq: seq + 1 };
  return { state: { ...asking, reask: { atMs: nowMs + 1, ...exitOf(job) } }, commands };
}

/** What is kept of an amendment, and what lists and hosts read of it. */
export function noted(
  before: AmendedSoFar,
  read: ReadAmendment,
  nowMs: number,
): {
  readonly amended: AmendedSoFar;
  readonly commands: readonly Extract<JobCommand, { readonly kind: "mark" | "proofs" }>[];
} {
  const { by, changes, proof, spec } = read;
  const proofs = proof === undefined ? before.proofs : [...before.proofs, proof].slice(-MAX_PROOFS);
  const mark: SearchMark = {
    ...(isChanged(read, "tenant") && { tenant: spec.tenant }),
    ...(isChanged(read, "max") && { gpus: spec.gang.gpus }),
  };
  return {
    amended: {
      count: before.count + 1,
      last: [...before.last, { atMs: nowMs, by, changes }].slice(-SHOWN_AMENDMENTS),
      proofs,
    },
    commands: [
      ...(Object.keys(mark).length > 0 ? [{ kind: "mark", mark } as const] : []),
      ...(proof === undefined ? [] : [{ kind: "proofs", proofs } as const]),
    ],
  };
}
