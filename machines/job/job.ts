/**
 * @file The life of one job: it enters, waits for a grant, runs its gang and ends, or starts again while its retry rule allows.
 *
 * Whatever ends it, its last message to the fleet is `end(jobId, runId, ≤ seq)`. A cancellation and the deadline are noted as a reason that
 * every stage looks at, so nothing is interrupted half-way. Events are only noted (`take`), and the tick after them acts on all that came in the
 * same moment: the job goes as far as it gets (`advance`), then sends the next message to a fleet (`pump`). So a grant and a
 * cancellation that come together start nothing, whichever comes first.
 * Cost: O(attempts + hosts) for each event.
 */

import type { JobSpec } from "../../domain/job/job.ts";
import type { Machine, Step, Tick } from "../machine.ts";
import { andThen, quiet } from "../steps.ts";
import {
  EARLY_GRANT_RULES,
  PATIENT_RULES,
  type Admission,
} from "../../protocol/control-contract.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { gangDueAtMs } from "../gang/gang.ts";
import { isPreemptOrder } from "../gang/preemption.ts";
import {
  backingOff,
  granted,
  loseHosts,
  notePreemption,
  prepared,
  preparing,
  ready,
  running,
  settled,
  toGang,
} from "./attempt.ts";
import { amendJob, NOT_AMENDED } from "./amended.ts";
import { openCells } from "./cells.ts";
import { openEarlyTasks, orderEarlyTasks } from "./early-tasks.ts";
import { NO_FOLLOWERS, newsForFollowers, withFollower } from "./followers.ts";
import { following, looked, openPredecessors, takeNews, waitingReason } from "./predecessors.ts";
import { askedBy, changeLane, EMPTY_LANE, pump, received } from "./fleet-conversation.ts";
import { actsDueAtMs } from "./durable-orders.ts";
import type { Job, JobCommand, JobEvent, JobIdentity } from "./job-state.ts";
import { finish } from "./job-end.ts";
import { heldBy, released, requeued, suspended } from "./paused.ts";
import { moved } from "./moved.ts";
import { awaitFormer, orphanAnswered, watchFormer, watchOrphan } from "./orphan-lease.ts";
import { answerCall, calledLate } from "./called-in.ts";
import { isOfFormerRun, retell, withoutGrantsOfOthers } from "./former-run.ts";
import { isGrant, isHostLoss, isLobbyCall, isWaitNote, saysNothing } from "./signals.ts";
import { askForPolish, polishDueAtMs, polished } from "./polish.ts";
import {
  asked,
  enter,
  forgotten,
  held,
  holding,
  leaving,
  notYetDurable,
  repeated,
  unasked,
  waiting,
  waitingDueAtMs,
  withdrawn,
  withoutFleet,
} from "./waiting.ts";
import { calledOff } from "../gang/gang-end.ts";

type JobStep = Step<Job, JobCommand>;

export const jobMachine: Machine<Job, JobEvent, JobCommand> = {
  step: stepJob,
  dueAtMs: jobDueAtMs,
};

export function openJob(identity: JobIdentity, nowMs: number): JobStep {
  const { jobId, runId, home, submittedAtMs } = identity;
  const job: Job = {
    ...identity,
    stage: { kind: "entering" },
    shown: "pending",
    extras: [],
    cells: openCells(home),
    seq: 1,
    hasRequest: false,
    requestedAtMs: nowMs,
    lateMs: 0,
    predecessors: [],
    followers: NO_FOLLOWERS,
    isHeld: false,
    isReleased: false,
    ranUnder: [],
    suspendedRunMs: 0,
    amended: NOT_AMENDED,
    fenced: [],
    attempts: [],
    account: { charged: 0, uncharged: 0 },
    doubtful: [],
    avoidHosts: [],
    rules: 1,
    isShrunk: false,
    marks: 0,
    noFleetPauses: 0,
    lane: EMPTY_LANE,
    earlyGrants: [],
    junkSignals: 0,
    isStirred: false,
  };
  const entry = { fleetWorkflowId: fleetWorkflowId(home), jobId, runId, submittedAtMs, nowMs };
  return { state: job, commands: [{ kind: "admit", entry }] };
}

export function stepJob(job: Job, event: JobEvent | Tick, nowMs: number): JobStep {
  // Also of a job that is over, before its workflow is: those are told of its end.
  if (event.kind === "follow")
    return quiet({
      ...job,
      followers: withFollower(job.followers, event.note),
      isStirred: job.stage.kind !== "over",
    });
  if (job.stage.kind === "over" && event.kind === "call-in") return calledLate(job, event.call);
  if (job.stage.kind === "over" || job.stage.kind === "array") return quiet(job);
  if (event.kind === "junk") return quiet(withJunk(job));
  if (event.kind !== "tick")
    return take({ ...(saysNothing(event) ? withJunk(job) : job), isStirred: true }, event, nowMs);
  const timed = toGang({ ...takeDeadline(job, nowMs), isStirred: false }, event, nowMs);
  return [advance, askForPolish, answerCall, tellFollowers, pump, watchOrphan, watchFormer].reduce(
    (step, next) => andThen(step, (before) => next(before, nowMs)),
    timed,
  );
}

/** When the job acts next unless something happens before: at once where something has happened. */
export function jobDueAtMs(job: Job): number {
  const { stage, spec, reason, submittedAtMs, orphan, former } = job;
  const { deadlineMs } = spec ?? {};
  if (stage.kind === "over" || stage.kind === "array") return Infinity;
  if (job.isStirred) return 0;
  return Math.min(
    deadlineMs === undefined || reason !== undefined ? Infinity : submittedAtMs + deadlineMs,
    orphan?.askAtMs ?? Infinity,
    former?.askAtMs ?? Infinity,
    stage.kind === "no-fleet" || stage.kind === "backing-off" ? stage.untilMs : Infinity,
    stage.kind === "holding" ? stage.atMs : Infinity,
    stage.kind === "following" && stage.askId === undefined ? stage.lookAtMs : Infinity,
    stage.kind === "waiting" ? waitingDueAtMs(job) : Infinity,
    stage.kind === "running" ? gangDueAtMs(stage.gang) : Infinity,
    actsDueAtMs(job),
    polishDueAtMs(job),
  );
}

function take(
  job: Job,
  event: Exclude<JobEvent, { readonly kind: "follow" | "junk" }>,
  nowMs: number,
): JobStep {
  switch (event.kind) {
    case "admission":
      return admitted(job, event.admission, nowMs);
    case "grant":
      return quiet(takeGrant(job, event.offer, nowMs));
    case "grants":
      return quiet(keepGrants(job, event.offers));
    case "pending":
      return quiet(takeNote(job, event.note));
    case "preempt":
      return quiet(takePreemption(job, event.order, nowMs));
    case "fenced":
      return quiet(takeLoss(job, event.loss));
    case "assert":
      return quiet(askedBy(job, event.question));
    case "predecessor":
      return takeNews(job, [event.note]);
    case "followed":
      return looked(job, event.id, event.news);
    case "call-in":
      return quiet(isLobbyCall(event.call) ? { ...job, call: event.call } : job);
    case "hold":
      return quiet(heldBy(job, event.order, nowMs));
    case "release":
      return quiet(released(job));
    case "suspend":
      return quiet(suspended(job, event.order, nowMs));
    case "requeue":
      return quiet(requeued(job, event.order, nowMs));
    case "move":
      return quiet(moved(job, event.order, nowMs));
    case "amend":
      return amendJob(job, event.order, nowMs);
    case "cancel-tasks":
    case "retry-tasks":
      return quiet(orderEarlyTasks(job, event));
    case "cancel":
      return quiet({ ...job, reason: job.reason ?? "cancelled" });
    case "kill":
      return quiet({ ...job, isKilled: true });
    case "told":
      return delivered(job, event, nowMs);
    case "lease":
      return quiet(orphanAnswered(job, event, nowMs));
    case "forgotten":
      return job.stage.kind === "leaving" && job.stage.id === event.id
        ? forgotten(job, nowMs)
        : quiet(job);
    case "extras":
      return job.stage.kind === "preparing" && job.stage.id === event.id
        ? quiet(prepared(job, { grant: job.stage.grant, report: event.report }, nowMs))
        : quiet(job);
    case "polished":
      return quiet(polished(job, event.id, event.facts));
    case "ran":
    case "stopped":
    case "found":
      return toGang(job, event, nowMs);
  }
}

const withJunk = (job: Job): Job => ({ ...job, junkSignals: job.junkSignals + 1 });

/** A fleet may answer an array's first request before the array has its answer to `admit`: after a crash of its worker, or under load. */
const MOST_EARLY_GRANTS = 100;

const keepGrants = (job: Job, offers: unknown): Job =>
  job.stage.kind === "entering" && job.earlyGrants.length < MOST_EARLY_GRANTS
    ? { ...job, earlyGrants: [...job.earlyGrants, offers] }
    : withJunk(job);

function takeDeadline(job: Job, nowMs: number): Job {
  const { deadlineMs } = job.spec ?? {};
  const isMissed = deadlineMs !== undefined && job.submittedAtMs + deadlineMs <= nowMs;
  return isMissed ? { ...job, reason: job.reason ?? "deadline" } : job;
}

function admitted(job: Job, admission: Admission, nowMs: number): JobStep {
  if (job.stage.kind !== "entering") return quiet(job);
  if (admission.kind === "refused") {
    const { code, message } = admission;
    const outcome = { kind: "failed", code, message, details: { attempts: 0 } } as const;
    return {
      state: enter({ ...job, shown: "failed" }, { kind: "over", outcome }),
      // A client that knows nothing of fleets has not named one, and a job without a fleet is in no list.
      commands: [{ kind: "mark", mark: { state: "failed", fleet: job.home } }],
    };
  }
  const { spec, notified, rules, runId, launchExtras: extras = [] } = admission;
  const isHeld = job.isHeld || (spec.isHeld && !job.isReleased);
  const heard =
    runId === undefined
      ? job
      : {
          ...withoutGrantsOfOthers(job, { runId, rules }, nowMs),
          entered: { runId, atMs: job.requestedAtMs },
        };
  const read: Job = { ...heard, spec, isHeld, rules };
  return andThen(markEntry(read), (marked) => {
    const ready = { ...marked, extras, cells: openCells(job.home, spec.cells) };
    if (spec.after !== undefined) return follow(ready, { spec, rules, nowMs });
    if (spec.array !== undefined) return quiet(enter(marked, { kind: "array", notified, rules }));
    if (notified.kind === "silent") return quiet(enter(ready, { kind: "unasked" }));
    const lateMs = rules >= PATIENT_RULES ? job.requestedAtMs - job.submittedAtMs : 0;
    const asking = { ...ready, hasRequest: true, requestedAtMs: nowMs, lateMs };
    return quiet(asked(asking, notified, nowMs));
  });
}

function follow(
  job: Job,
  {
    spec,
    rules,
    nowMs,
  }: { readonly spec: JobSpec; readonly rules: number; readonly nowMs: number },
): JobStep {
  const predecessors = openPredecessors(spec, job.jobId);
  const pending = waitingReason(predecessors);
  // As its search attribute says: set by the client from the file alone, or just now.
  const shown = (job.isListed ? spec.isHeld : job.isHeld) ? "held" : "pending";
  const early = openEarlyTasks(spec, rules);
  const state = enter(
    { ...job, ...early, predecessors, pending, shown },
    { kind: "following", rules, lookAtMs: nowMs, isKnown: false },
  );
  return { state, commands: early.tasks === undefined ? [] : [{ kind: "hear-task-orders" }] };
}

/** Those that wait for its start hear of its first grant. */
function tellFollowers(job: Job): JobStep {
  const { followers, commands } = newsForFollowers(job.followers, job.attempts.length > 0);
  return commands.length === 0 ? quiet(job) : { state: { ...job, followers }, commands };
}

/** On entering, unless the client has set the search attributes at the start. */
function markEntry(job: Job): JobStep {
  const { spec, home: fleet, isHeld } = job;
  if (job.isListed || spec === undefined) return quiet(job);
  const { class: jobClass, tenant, gang } = spec;
  const state = isHeld ? "held" : "pending";
  return {
    state: { ...job, marks: job.marks + 1 },
    commands: [{ kind: "mark", mark: { state, fleet, class: jobClass, tenant, gpus: gang.gpus } }],
  };
}

function takeGrant(before: Job, offer: unknown, nowMs: number): Job {
  if (!isGrant(offer)) return before;
  if (isOfFormerRun(before, offer)) return awaitFormer(before, offer.lease, nowMs);
  const job = before.stage.kind === "entering" ? retell(before, offer) : before;
  if (offer.seq === job.seq && job.grant === undefined) return { ...job, grant: offer };
  if (offer.seq > job.seq && job.rules >= EARLY_GRANT_RULES) return { ...job, nextGrant: offer };
  if (offer.seq >= job.seq) return job;
  return changeLane(job, { staleUpTo: Math.max(job.lane.staleUpTo, offer.seq) });
}

const takeNote = (job: Job, note: unknown): Job =>
  isWaitNote(note) && note.seq === job.seq && job.grant === undefined
    ? { ...job, pending: note.reason }
    : job;

/** An order for a lease that is over, or a repeated order, changes nothing. */
function takePreemption(job: Job, order: unknown, nowMs: number): Job {
  if (!isPreemptOrder(order) || order.lease !== job.grant?.lease.id) return job;
  if (job.preempt !== undefined) return job;
  const { preemptionLimits: _former, ...rest } = job;
  const { limits } = order;
  const limited = limits === undefined ? rest : { ...rest, preemptionLimits: limits };
  return notePreemption({ ...limited, preempt: order }, nowMs);
}

const takeLoss = (job: Job, loss: unknown): Job =>
  isHostLoss(loss) && loss.lease === job.grant?.lease.id ? loseHosts(job, loss.hosts) : job;

/** A message has reached its fleet, or found none. */
function delivered(
  before: Job,
  { id, result }: Extract<JobEvent, { readonly kind: "told" }>,
  nowMs: number,
): JobStep {
  const answered = received(before, id);
  if (answered === undefined) return quiet(before);
  const { message } = answered;
  const job = notYetDurable(answered.job, nowMs);
  const { stage } = job;
  switch (message.purpose) {
    case "request":
      return quiet(stage.kind === "asking" ? asked(job, result, nowMs) : job);
    case "answer":
      return quiet(repeated(job, result));
    case "withdraw":
      return stage.kind === "withdrawing" ? withdrawn(job, stage.next) : quiet(job);
    case "settle":
      return stage.kind === "settling" ? settled(job, stage.end, nowMs) : quiet(job);
    case "end":
      return finish(job, calledOff(nowMs));
    case "aside":
      return quiet(job);
  }
}

/** Goes through the stages that need no further event. */
function advance(job: Job, nowMs: number): JobStep {
  const step = pass(job, nowMs);
  return step.state.stage === job.stage ? step : andThen(step, (next) => advance(next, nowMs));
}

function pass(job: Job, nowMs: number): JobStep {
  const { stage } = job;
  switch (stage.kind) {
    case "following":
      return following(job, stage, nowMs);
    case "unasked":
      return unasked(job, nowMs);
    case "waiting":
      return quiet(waiting(job, nowMs));
    case "no-fleet":
      return quiet(withoutFleet(job, stage.untilMs, nowMs));
    case "holding":
      return quiet(holding(job, stage.atMs, nowMs));
    case "held":
      return held(job, nowMs);
    case "leaving":
      return quiet(leaving(job));
    case "granted":
      return granted(job, stage.grant, nowMs);
    case "preparing":
      return preparing(job, stage.grant, stage.id);
    case "ready":
      return ready(job, stage, nowMs);
    case "running":
      return running(job, stage.gang, nowMs);
    case "backing-off":
      return quiet(backingOff(job, stage.untilMs, nowMs));
    default:
      return quiet(job);
  }
}
