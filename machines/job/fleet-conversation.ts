/**
 * @file What a job tells its fleets: requests, their ends, and what it has when a fleet has lost its ledger. One message at a time.
 *
 * A request number is only ever used at one fleet, and a job runs on the grant of its present number alone. So a message that comes late (a
 * request that was lost on the way and found again, a grant that was under way) can take GPUs for a moment, but never start the job twice:
 * a grant for a request that is over is given back at every fleet of the ring.
 */

import type { Step } from "../machine.ts";
import { quiet } from "../steps.ts";
import { DEFAULT_PREEMPTION } from "../../domain/job/job.ts";
import { scheduledPart, type ScheduledPart } from "../../domain/lease/gang-request.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import { limitedRule } from "../../domain/lease/preemption-limits.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { presentFleet } from "./cells.ts";
import type { FleetMessage, FleetLane, Job, JobCommand, Purpose, Stage } from "./job-state.ts";
import { factOf } from "./lease-fact.ts";
import { exitOf, patienceOf } from "./outside.ts";
import { runAsked, runNamedBy } from "./run-asked.ts";
import { keptWords } from "./replacement.ts";

type JobStep = Step<Job, JobCommand>;

export const EMPTY_LANE: FleetLane = {
  queue: [],
  count: 0,
  isAsked: false,
  isAnswering: false,
  staleUpTo: 0,
};

export const changeLane = (job: Job, change: Partial<FleetLane>): Job => ({
  ...job,
  lane: { ...job.lane, ...change },
});

/** Somebody wants to hear what the job has; each question counts alone. */
export function askedBy(job: Job, question: unknown): Job {
  const { askedRun: _former, ...lane } = job.lane;
  return { ...job, lane: { ...lane, isAsked: true, ...runNamedBy(question) } };
}

/** Queues a message, for the fleet where the job is now unless another is named. */
export function tell(
  job: Job,
  entry: InboxEntry | undefined,
  purpose: Purpose,
  { fleet = presentFleet(job.cells), ...more }: Partial<Pick<FleetMessage, "fleet" | "exit">> = {},
): Job {
  const message: FleetMessage = {
    fleet,
    purpose,
    ...(entry !== undefined && { entry }),
    ...more,
  };
  return changeLane(job, { queue: [...job.lane.queue, message] });
}

export const endEntry = (
  { jobId, runId, doubtful }: Job,
  seq: number,
  unconfirmedHosts: readonly HostId[] | "all" = doubtful,
): InboxEntry => ({ kind: "end", jobId, runId, seq, unconfirmedHosts });

/** Queues the present request. A grant for it may come from now on. */
export function tellRequest(
  job: Job,
  purpose: "request" | "answer",
  { atMs, credit }: { readonly atMs: number; readonly credit?: number },
): Job {
  const { reask, ...present } = job;
  const { spec, round = 0 } = job;
  if (spec === undefined) return job;
  const part = scheduledPart(spec);
  const patience = patienceOf(job);
  const request: GangRequest = {
    ...part,
    ...(job.isShrunk && { gang: { ...part.gang, timeoutMs: ms(0) } }),
    ...limitedPreemption(job, part),
    jobId: job.jobId,
    runId: job.runId,
    seq: job.seq,
    submittedAtMs: job.eligibleAtMs ?? job.submittedAtMs,
    requestedAtMs: atMs,
    ...(credit !== undefined && { credit }),
    ...(round > 0 && { round }),
    ...(job.avoidHosts.length > 0 && { avoidHosts: job.avoidHosts }),
    ...(patience !== undefined && { patienceMs: patience }),
  };
  const asked = { ...present, hasRequest: true, requestedAtMs: atMs };
  return tell(asked, { kind: "request", request }, purpose, reask ?? {});
}

/** The job's own rule, or what the last fleet that preempted it has left of that. */
function limitedPreemption(
  { jobId, attempts, preemptionLimits }: Job,
  part: ScheduledPart,
): Pick<GangRequest, "preemption"> {
  if (preemptionLimits === undefined) return {};
  const times = attempts.filter(
    ({ preempted }) => preempted !== undefined && preempted.forJob !== jobId,
  ).length;
  const rule = part.preemption ?? DEFAULT_PREEMPTION[part.class];
  return { preemption: limitedRule(rule, times, preemptionLimits) };
}

/** Ends the present request: the next one has another number, and nothing that belongs to this one counts any more. */
export function advanceRequest(job: Job): Job {
  const {
    grant: _grant,
    preempt: _preempt,
    givenUp: _order,
    actsAtMs: _later,
    round: _round,
    reask: _late,
    kept: _kept,
    ...rest
  } = job;
  return answeredEarly({ ...rest, seq: job.seq + 1, hasRequest: false, fenced: [] });
}

/** The fleet may have answered the present request already. */
export function answeredEarly(job: Job): Job {
  const { nextGrant: grant, ...rest } = job;
  if (grant === undefined || grant.seq > job.seq) return job;
  return grant.seq === job.seq ? { ...rest, grant, hasRequest: true } : rest;
}

/** Takes the present request back; an answer to it is stale from now on. */
export const withdraw = (job: Job): Job =>
  tell(advanceRequest(job), endEntry(job, job.seq), "withdraw", exitOf(job));

/** Sends the next message, if none is on its way. */
export function pump(job: Job, nowMs: number): JobStep {
  const { stage, lane } = job;
  // An array speaks for itself, and the file is read by a local activity, too.
  const isSilent = stage.kind === "entering" || stage.kind === "array" || stage.kind === "over";
  if (isSilent || lane.sent !== undefined) return quiet(job);
  const [next, ...queue] = lane.queue;
  if (next !== undefined) return send(changeLane(job, { queue }), next);
  const more = speakAside(job, nowMs);
  return more === job ? quiet(job) : pump(more, nowMs);
}

function send(job: Job, message: FleetMessage): JobStep {
  const id = job.lane.count + 1;
  const { fleet, entry, exit } = message;
  const state = changeLane(job, { sent: { id, message }, count: id });
  if (entry !== undefined) {
    const at = fleetWorkflowId(fleet);
    return {
      state,
      commands: [
        { kind: "tell", id, fleetWorkflowId: at, entry, ...(exit !== undefined && { exit }) },
      ],
    };
  }
  return { state, commands: exit === undefined ? [] : [{ kind: "leave-lobby", id, exit }] };
}

/** The message that was on its way under that number, and the job without it. */
export function received(
  job: Job,
  id: number,
): { readonly message: FleetMessage; readonly job: Job } | undefined {
  const { sent, ...lane } = job.lane;
  return sent?.id === id ? { message: sent.message, job: { ...job, lane } } : undefined;
}

/** What there is to say when nothing is queued; the same job when there is nothing. */
function speakAside(job: Job, nowMs: number): Job {
  const { isAsked, isAnswering, staleUpTo } = job.lane;
  if (isAnswering) return answer(changeLane(job, { isAnswering: false }), nowMs);
  if (isAsked && job.orphan === undefined) {
    const heard = changeLane(job, { isAsked: false });
    if (job.isHeld || job.stage.kind === "following") return heard;
    const answering = changeLane(heard, { isAnswering: true });
    if (job.seq === 1) return answering;
    const former = { ...endEntry(job, job.seq - 1, "all"), ...keptWords(job, nowMs) };
    return tell(answering, former, "aside");
  }
  if (staleUpTo === 0) return job;
  return job.cells.ring.reduce(
    (before, fleet) => tell(before, endEntry(job, staleUpTo), "aside", { fleet }),
    changeLane(job, { staleUpTo: 0 }),
  );
}

/** The present request or lease. */
function answer(job: Job, nowMs: number): Job {
  const { grant, stage } = job;
  if (grant === undefined) {
    const isLeaving =
      stage.kind === "leaving" || (stage.kind === "withdrawing" && stage.next === "leave");
    const mayAsk = job.shown === "pending" && !job.isHeld && job.reason === undefined;
    return mayAsk && !isLeaving ? tellRequest(job, "answer", { atMs: nowMs }) : job;
  }
  const { lease } = grant;
  if (lease.runId === runAsked(job.lane, job))
    return tell(job, { kind: "assert", lease: factOf(lease) }, "aside");
  return { ...job, orphan: { lease: lease.id, gpus: lease.gpus, pauses: 0, askAtMs: nowMs } };
}

/** A command with a number, and the job in the stage that waits for its answer. */
export function ask(
  job: Job,
  make: (id: number) => { readonly stage: Stage; readonly command: JobCommand },
): JobStep {
  const id = job.lane.count + 1;
  const { stage, command } = make(id);
  return { state: { ...changeLane(job, { count: id }), stage }, commands: [command] };
}
