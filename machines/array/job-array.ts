/**
 * @file The life of a job array: one request for many slots, a lease for each host that is granted, batches of tasks on each lease.
 *
 * Tasks that failed wait again while the retry rule of the job allows it; refusals and losses of hosts are not charged to them. A hold lets
 * running batches end and hands out nothing more. A lease that is wanted for others is stopped and given back, and its tasks wait again.
 * Events are only noted, and the tick after them acts on all that came in the same moment. Whatever ends the array, its last message to the
 * fleet is `end`, after every lease was given back.
 * History: six events a batch (batch-size.ts), about ten for a change of the request and for the end of a lease. An array is never continued as
 * new, because its leases are its run's (docs/decisions/0011). Cost: O(leases) for each event.
 */

import { DOUBTED_GRANT_RULES } from "../../protocol/control-contract.ts";
import { gangDueAtMs } from "../gang/gang.ts";
import { isPreemptOrder } from "../gang/preemption.ts";
import { newsForFollowers, withFollower } from "../job/followers.ts";
import { runAsked } from "../job/run-asked.ts";
import { isHostLoss, saysNothing } from "../job/signals.ts";
import type { Machine, Tick } from "../machine.ts";
import { andThen, forEach, quiet } from "../steps.ts";
import { amendArray } from "./array-amended.ts";
import { denyLeases } from "./array-denials.ts";
import { advanceEnd, endDelivered } from "./array-end.ts";
import { changeNamed, noteGrants, takeArrivals } from "./array-grants.ts";
import { advanceLease, othersAnswered, toGang } from "./array-leases.ts";
import { memoize, memoizeSome } from "./array-marks.ts";
import {
  askAnewAtMs,
  advanceRequests,
  askedBy,
  noteCall,
  noteReason,
  openRequests,
  requestDelivered,
} from "./array-requests.ts";
import type { ArrayCommand, ArrayEntry, ArrayEvent, ArrayStep, JobArray } from "./array-state.ts";
import { giveUpLeases, holdArray, releaseArray } from "./array-paused.ts";
import { hostsOf } from "./held-lease.ts";
import { openTasks } from "./named-tasks.ts";
import { cancelTasks, retryTasks } from "./task-orders.ts";
import { resume } from "./task-pauses.ts";
import { noteFailedStop, stopAgain } from "./task-stops.ts";

export const arrayMachine: Machine<JobArray, ArrayEvent, ArrayCommand> = {
  step: stepArray,
  dueAtMs: arrayDueAtMs,
};

export function openArray(entry: ArrayEntry, nowMs: number): ArrayStep {
  const { entered: _answer, isAsked: _question, askedRun: _run, ...heard } = entry;
  const { earlyGrants = [], call, ...known } = heard;
  const array: JobArray = {
    ...known,
    phase: { kind: "open" },
    tasks: entry.tasks ?? openTasks(entry.rule),
    leases: new Map(),
    arrivals: new Map(),
    seen: new Set(),
    requests: { ...openRequests(entry, nowMs), ...(call !== undefined && { call }) },
    unconfirmed: new Set(),
    unwanted: new Set(),
    stopsAgain: [],
    pauses: [],
    lostInARow: 0,
    batches: 0,
    ran: { tasks: 0, ms: 0 },
    hosts: new Set(),
    unconfirmedHosts: new Set(),
    preemptions: 0,
    memoAt: 0,
    commandCount: 0,
    isStirred: true,
  };
  return memoize(earlyGrants.reduce(noteGrants, array));
}

function stepArray(array: JobArray, event: ArrayEvent | Tick, nowMs: number): ArrayStep {
  if (event.kind === "follow")
    return quiet({
      ...array,
      followers: withFollower(array.followers, event.note),
      isStirred: array.phase.kind !== "over",
    });
  if (array.phase.kind === "over") return quiet(array);
  if (event.kind === "junk") return quiet(withJunk(array));
  if (event.kind === "stop-failed") return quiet(noteFailedStop(array, event.stop, nowMs));
  if (event.kind !== "tick")
    return take(
      { ...(saysNothing(event) ? withJunk(array) : array), isStirred: true },
      event,
      nowMs,
    );
  const timed = resume(takeDeadline({ ...array, isStirred: false }, nowMs), nowMs);
  const moved = forEach(timed, timed.leases.keys(), (before: JobArray, lease) =>
    advanceLease(before, lease, nowMs),
  );
  return [stopAgain, takeArrivals, advanceRequests, memoizeSome, tellFollowers, advanceEnd].reduce(
    (step, next) => andThen(step, (before) => next(before, nowMs)),
    moved,
  );
}

/** Those that wait for its start hear of its first lease. */
function tellFollowers(array: JobArray): ArrayStep {
  const hasStarted = array.firstGrantAtMs !== undefined;
  const { followers, commands } = newsForFollowers(array.followers, hasStarted);
  return commands.length === 0 ? quiet(array) : { state: { ...array, followers }, commands };
}

/** When the array acts next unless something happens before: at once where something has happened. */
function arrayDueAtMs(array: JobArray): number {
  const { phase, isStirred, reason, submittedAtMs, spec, requests, leases } = array;
  const { pauses, stopsAgain } = array;
  if (phase.kind === "over") return Infinity;
  if (isStirred) return 0;
  if (phase.kind !== "open") return Infinity;
  const { deadlineMs } = spec;
  const { doing } = requests;
  const times = [
    ...(deadlineMs === undefined || reason !== undefined ? [] : [submittedAtMs + deadlineMs]),
    doing.kind === "pausing" ? doing.untilMs : Infinity,
    doing.kind === "nothing" && reason === undefined ? askAnewAtMs(array) : Infinity,
    ...pauses.map(({ untilMs }) => untilMs),
    ...stopsAgain.map(({ untilMs }) => untilMs),
    ...[...leases.values()].map(({ work }) =>
      work.kind === "running" ? gangDueAtMs(work.gang) : Infinity,
    ),
  ];
  return times.reduce((least, each) => Math.min(least, each), Infinity);
}

function takeDeadline(array: JobArray, nowMs: number): JobArray {
  const { phase, reason, spec, submittedAtMs } = array;
  const { deadlineMs = Infinity } = spec;
  const isMissed = phase.kind === "open" && submittedAtMs + deadlineMs <= nowMs;
  return isMissed && reason === undefined ? { ...array, reason: "deadline" } : array;
}

function take(
  array: JobArray,
  event: Exclude<ArrayEvent, { readonly kind: "follow" | "junk" | "stop-failed" }>,
  nowMs: number,
): ArrayStep {
  switch (event.kind) {
    case "grants":
      return quiet(noteGrants(array, event.offers));
    case "pending":
      return quiet(noteReason(array, event.note));
    case "preempt":
      return quiet(takePreemption(array, event.order));
    case "fenced":
      return quiet(takeLoss(array, event.loss));
    case "assert":
      return denyLeases(stopOrphans(askedBy(array, event.question)), event.question);
    case "call-in":
      return quiet(noteCall(array, event.call));
    case "hold":
      return quiet(holdArray(array, event.order, nowMs));
    case "release":
      return quiet(releaseArray(array));
    case "suspend":
    case "requeue":
      return quiet(giveUpLeases(array, event, nowMs));
    case "amend":
      return amendArray(array, event.order, nowMs);
    case "cancel-tasks":
      return cancelTasks(array, event.order, nowMs);
    case "retry-tasks":
      return retryTasks(array, event.order);
    case "cancel":
      return quiet(
        array.phase.kind === "open" ? { ...array, reason: array.reason ?? "cancelled" } : array,
      );
    case "kill":
      return quiet({ ...array, isKilled: true });
    case "told":
      return takeDelivery(array, event, nowMs);
    case "others-wait":
      return quiet(othersAnswered(array, event.id, event.doWait));
    case "gang":
      return toGang(array, { lease: event.lease, event: event.answer }, nowMs);
  }
}

const withJunk = (array: JobArray): JobArray => ({
  ...array,
  junkSignals: array.junkSignals + 1,
});

/** A repeated order changes nothing, nor does one for a lease that is gone. */
function takePreemption(array: JobArray, order: unknown): JobArray {
  if (!isPreemptOrder(order)) return array;
  const isNew = array.leases.get(order.lease)?.preempt === undefined;
  const preemptions = array.preemptions + (isNew && array.leases.has(order.lease) ? 1 : 0);
  return changeNamed({ ...array, preemptions }, order.lease, (held) => ({
    ...held,
    preempt: held.preempt ?? order,
  }));
}

/**
 * The fleet takes back the leases of a run that was reset. Their tasks are stopped here, and wait again. Grants are among them that a reset told again in the
 * moment of the question: nobody would speak of those once the fleet has freed them.
 */
function stopOrphans(array: JobArray): JobArray {
  const asked = runAsked(array.requests, array);
  const { leases, arrivals } = array;
  const known = [
    ...leases.values(),
    ...(array.rules >= DOUBTED_GRANT_RULES ? arrivals.values() : []),
  ];
  const orphans = known.filter(
    ({ grant, preempt }) => grant.lease.runId !== asked && preempt === undefined,
  );
  return orphans.reduce((before, { grant }) => {
    const { id: lease, seq } = grant.lease;
    const reason = "the job was reset, and its new run asks for leases of its own";
    const preempt = { seq, lease, forJob: array.jobId, reason, graceMs: 0 };
    return changeNamed(before, lease, (held) => ({ ...held, preempt }));
  }, array);
}

const takeLoss = (array: JobArray, loss: unknown): JobArray =>
  isHostLoss(loss)
    ? changeNamed(array, loss.lease, (held) => ({
        ...held,
        fenced: hostsOf(held.grant).filter(
          (host) => loss.hosts.includes(host) || held.fenced.includes(host),
        ),
      }))
    : array;

function takeDelivery(
  array: JobArray,
  { id, result }: Extract<ArrayEvent, { readonly kind: "told" }>,
  nowMs: number,
): ArrayStep {
  const isConfirmed = array.unconfirmed.has(id);
  const unconfirmed = new Set(array.unconfirmed);
  unconfirmed.delete(id);
  const heard = { ...array, unconfirmed };
  if (array.phase.kind === "ending") return endDelivered(heard, id, nowMs);
  return isConfirmed ? quiet(heard) : requestDelivered(array, id, { result, nowMs });
}
