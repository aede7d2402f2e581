/**
 * @file What a job array asks its fleet for: keeps the request in step with the slots that it can use, and asserts its leases.
 *
 * A request that is too small, or more than twice too large, is replaced by one with a higher number; one that is not needed any more is
 * withdrawn. The fleet lowers a request's slots with every grant, and so does the count here. One request or assertion is on its way at a
 * time; messages that give leases back go beside them.
 */

import { scheduledPart } from "../../domain/lease/gang-request.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import type { LeaseId, TenantId } from "../../domain/values/ids.ts";
import {
  CALLED_END_RULES,
  EARLY_CALL_RULES,
  FORMER_LOBBY_RULES,
  RECALLED_RULES,
  type NotifyResult,
} from "../../protocol/control-contract.ts";
import type { Grant, WaitNote } from "../../protocol/job.ts";
import type { LobbyExit } from "../../protocol/lobby-contract.ts";
import type { LobbyCall } from "../../protocol/lobby.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { noFleet } from "../job/job-view.ts";
import { hasNoHostLeft, restedAtMs } from "../job/refused-hosts.ts";
import { factOf } from "../job/lease-fact.ts";
import { runAsked, runNamedBy } from "../job/run-asked.ts";
import { isLobbyCall, isWaitNote } from "../job/signals.ts";
import { andThen, quiet } from "../steps.ts";
import {
  changeRequests,
  nextId,
  wantedSlots,
  type ArrayEntry,
  type ArrayStep,
  type JobArray,
  type RequestLane,
} from "./array-state.ts";

const NO_FLEET_PAUSE_MS = 5_000;
const NO_FLEET_PAUSE_MAX_MS = 600_000;

/** The lane of an array whose first request has been answered. */
export function openRequests(
  { entered, rule, fleet, isAsked, askedRun }: ArrayEntry,
  nowMs: number,
): RequestLane {
  const lane: RequestLane = {
    seq: 1,
    asked: entered.kind === "delivered" ? rule.parallel : 0,
    askedAtMs: nowMs,
    isAsked,
    ...(askedRun !== undefined && { askedRun }),
    asserted: new Set(),
    isOutdated: false,
    endedUpTo: 0,
    avoidHosts: [],
    noFleetPauses: 0,
    doing: { kind: "nothing" },
  };
  return answered(lane, { fleet, result: entered, nowMs });
}

/** A grant came, which answers the present request or a former one. */
export function noteGrant(array: JobArray, { seq, lease }: Grant): JobArray {
  const { pending: _answered, ...lane } = array.requests;
  const isPresent = seq === lane.seq;
  const asked = isPresent ? Math.max(0, lane.asked - (lease.slots ?? 1)) : lane.asked;
  return { ...array, requests: { ...lane, asked } };
}

export function noteReason(array: JobArray, note: unknown): JobArray {
  const { seq, asked } = array.requests;
  const isPresent = (each: WaitNote): boolean => each.seq === seq && asked > 0;
  return isWaitNote(note) && isPresent(note)
    ? changeRequests(array, { pending: note.reason })
    : array;
}

/** Somebody wants to hear what the array has; each question counts alone. */
export function askedBy(array: JobArray, question: unknown): JobArray {
  const { askedRun: _former, ...lane } = array.requests;
  return { ...array, requests: { ...lane, isAsked: true, ...runNamedBy(question) } };
}

/** A call from the lobby, in which the array is one place. */
export const noteCall = (array: JobArray, call: unknown): JobArray =>
  isLobbyCall(call) ? changeRequests(array, { call }) : array;

/** The fleet has the request or assertion with that number, or there is no fleet. */
export function requestDelivered(
  array: JobArray,
  id: number,
  { result, nowMs }: { readonly result: NotifyResult; readonly nowMs: number },
): ArrayStep {
  const { requests, fleet } = array;
  const { doing } = requests;
  if (doing.kind === "requesting" && doing.id === id)
    return quiet({ ...array, requests: answered(requests, { fleet, result, nowMs }) });
  if (doing.kind === "asserting" && doing.id === id) return assertNext(array, doing.rest);
  return quiet(array);
}

/** Tells the fleet what it does not know yet, unless something else is on its way to it. */
export function advanceRequests(array: JobArray, nowMs: number): ArrayStep {
  const { doing } = array.requests;
  if (doing.kind === "pausing" && (array.reason !== undefined || doing.untilMs <= nowMs))
    return advanceRequests(changeRequests(array, { doing: { kind: "nothing" } }), nowMs);
  const isOpen = array.phase.kind === "open" && array.reason === undefined;
  if (array.requests.call !== undefined && (doing.kind === "nothing" || !isOpen))
    return andThen(answerCall(array, array.requests.call, nowMs), (next) =>
      advanceRequests(next, nowMs),
    );
  if (doing.kind !== "nothing" || !isOpen || !isChangeDue(array, nowMs)) return quiet(array);
  if (!array.requests.isAsked) return request(array, nowMs);
  const heard = changeRequests(array, { isAsked: false, isOutdated: true });
  return andThen(assertNext(heard, [...array.leases.keys()]), (next) =>
    advanceRequests(next, nowMs),
  );
}

function answered(
  lane: RequestLane,
  {
    fleet,
    result,
    nowMs,
  }: { readonly fleet: string; readonly result: NotifyResult; readonly nowMs: number },
): RequestLane {
  if (result.kind !== "no-fleet") return { ...lane, doing: { kind: "nothing" } };
  const pauseMs = Math.min(NO_FLEET_PAUSE_MS * 2 ** lane.noFleetPauses, NO_FLEET_PAUSE_MAX_MS);
  return {
    ...lane,
    asked: 0,
    pending: noFleet(fleet, result.message),
    noFleetPauses: lane.noFleetPauses + 1,
    doing: { kind: "pausing", untilMs: nowMs + pauseMs },
  };
}

/** A request for many more slots than are wanted would take GPUs for a moment that others could use for longer. */
function isChangeDue(array: JobArray, nowMs: number): boolean {
  const { isAsked, asked, isOutdated } = array.requests;
  const slots = wantedSlots(array);
  return (
    isAsked ||
    slots > asked ||
    2 * slots < asked ||
    (asked > 0 && (isOutdated || hasNoHostLeft(array.requests))) ||
    askAnewAtMs(array) <= nowMs
  );
}

/** When it asks the hosts again that refused it, because of the others too few answer. */
export const askAnewAtMs = ({ requests, rules }: JobArray): number =>
  requests.asked > 0 ? restedAtMs(requests, { rules, askedAtMs: requests.askedAtMs }) : Infinity;

/** Asks again with the credit, or gives the call back to the lobby. */
function answerCall(array: JobArray, { seq, credit, round }: LobbyCall, nowMs: number): ArrayStep {
  const { call: _call, ...lane } = array.requests;
  const answered: JobArray = { ...array, requests: lane };
  if (credit === lane.usedCredit && array.rules < RECALLED_RULES) return quiet(answered);
  if (seq > lane.seq && array.rules >= EARLY_CALL_RULES) return quiet(answered);
  const mayEnter =
    array.phase.kind === "open" &&
    array.reason === undefined &&
    seq === lane.seq &&
    lane.asked > 0 &&
    formerTenant(array, seq) === undefined;
  if (!mayEnter)
    return array.phase.kind === "open" || array.rules >= CALLED_END_RULES
      ? leaveLobby(answered, exitUnder(array, seq).exit)
      : quiet(answered);
  const { pending: _outside, ...entering } = lane;
  const request = {
    ...requestOf(array, lane.asked, nowMs),
    credit,
    ...(round > 0 && { round }),
  };
  const { id, step } = tell(
    { ...array, requests: { ...entering, usedCredit: credit } },
    { kind: "request", request },
  );
  return { ...step, state: changeRequests(step.state, { doing: { kind: "requesting", id } }) };
}

function request(array: JobArray, nowMs: number): ArrayStep {
  const slots = wantedSlots(array);
  const { pending: _former, leaving, ...lane } = array.requests;
  // Where none is left but those that refused, these are asked again.
  const isNoneLeft = hasNoHostLeft(array.requests) || askAnewAtMs(array) <= nowMs;
  const avoidHosts = isNoneLeft ? [] : lane.avoidHosts;
  if (slots === 0 && lane.asked === 0) return quiet(changeRequests(array, { avoidHosts }));
  const seq = lane.seq + 1;
  const asking: JobArray = {
    ...array,
    requests: { ...lane, seq, asked: slots, askedAtMs: nowMs, isOutdated: false, avoidHosts },
  };
  const { id, step } = tell(
    asking,
    { kind: "request", request: requestOf(asking, slots, nowMs) },
    leaving !== undefined ? { exit: leaving } : slots === 0 ? exitOf(array) : {},
  );
  return {
    ...step,
    state: changeRequests(step.state, { doing: { kind: "requesting", id } }),
  };
}

/** The seniority of an array without leases is that of its submission; with leases it has had its turn. */
function requestOf(
  { spec, jobId, runId, submittedAtMs, eligibleAtMs, leases, requests }: JobArray,
  slots: number,
  nowMs: number,
): GangRequest {
  const { seq, avoidHosts } = requests;
  return {
    ...scheduledPart(spec),
    slots,
    jobId,
    runId,
    seq,
    submittedAtMs: leases.size > 0 ? nowMs : (eligibleAtMs ?? submittedAtMs),
    requestedAtMs: nowMs,
    ...(avoidHosts.length > 0 && { avoidHosts }),
  };
}

/** Asserts the first of these leases that the array still holds, and that are of the run that was asked; after the last one, it asks anew. */
function assertNext(array: JobArray, leases: readonly LeaseId[]): ArrayStep {
  const [first, ...rest] = leases;
  if (first === undefined)
    return quiet(changeRequests(array, { asked: 0, doing: { kind: "nothing" } }));
  const lease = array.leases.get(first)?.grant.lease;
  if (lease?.runId !== runAsked(array.requests, array)) return assertNext(array, rest);
  const { id, step } = tell(array, { kind: "assert", lease: factOf(lease) });
  const asserted = new Set([...array.requests.asserted, first]);
  const doing = { kind: "asserting", id, lease: first, rest } as const;
  return { ...step, state: changeRequests(step.state, { asserted, doing }) };
}

/** The word to the lobby that goes with the end of the present request; nothing for an array that waits inside. */
export const exitOf = (array: JobArray): { readonly exit?: LobbyExit } =>
  array.requests.asked > 0 && array.requests.pending?.code === "QueueFull"
    ? exitUnder(array, array.requests.seq)
    : {};

/** Under which the request was made, if not under the present tenant. */
const formerTenant = (
  { tenantsBefore = [], rules }: JobArray,
  seq: number,
): TenantId | undefined =>
  rules >= FORMER_LOBBY_RULES ? tenantsBefore.find(({ upTo }) => seq <= upTo)?.tenant : undefined;

function exitUnder(array: JobArray, seq: number): { readonly exit: LobbyExit } {
  const { fleet, spec, jobId, runId } = array;
  const tenant = formerTenant(array, seq) ?? spec.tenant;
  return { exit: { fleet, tenant, jobId, runId, seq, class: spec.class } };
}

export function tell(
  before: JobArray,
  entry: InboxEntry,
  exit: { readonly exit?: LobbyExit } = {},
): { readonly id: number; readonly step: ArrayStep } {
  const { id, array } = nextId(before);
  const at = fleetWorkflowId(array.fleet);
  return {
    id,
    step: { state: array, commands: [{ kind: "tell", id, fleetWorkflowId: at, entry, ...exit }] },
  };
}

/** A message about a lease, beside the requests. The array is not over before the fleet has it. */
export function tellAside(array: JobArray, entry: InboxEntry): ArrayStep {
  const { id, step } = tell(array, entry);
  return awaited(id, step);
}

function leaveLobby(before: JobArray, exit: LobbyExit): ArrayStep {
  const { id, array } = nextId(before);
  return awaited(id, { state: array, commands: [{ kind: "leave-lobby", id, exit }] });
}

const awaited = (id: number, { state, commands }: ArrayStep): ArrayStep => ({
  state: { ...state, unconfirmed: new Set([...state.unconfirmed, id]) },
  commands,
});
