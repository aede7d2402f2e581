/**
 * @file How a job waits for a grant: with a request at a fleet, held without one, pausing while no fleet answers, or moving to another fleet.
 *
 * A reason to stop goes before everything, a grant before a hold. The job leaves a fleet only after that fleet has confirmed that it holds
 * nothing of the job, and its request to the next one has another number.
 */

import type { Step } from "../machine.ts";
import { quiet } from "../steps.ts";
import {
  DURABLE_GIVING_UP_RULES,
  DURABLE_ORDER_RULES,
  RESTED_ANYWAY_RULES,
  type NotifyResult,
} from "../../protocol/control-contract.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { moveTo, moveToNext, patienceMs, presentFleet, shouldLeave } from "./cells.ts";
import { answeredEarly, ask, endEntry, tell, tellRequest, withdraw } from "./fleet-conversation.ts";
import { noFleet } from "./job-view.ts";
import { exitOf, lastExitOf, outsideUntilMs } from "./outside.ts";
import { hasNoHostLeft, restedAtMs } from "./refused-hosts.ts";
import type { Job, JobCommand, Stage, Withdrawal } from "./job-state.ts";
import { mark } from "./marks.ts";

/** Pause before a fleet that does not answer is asked again; doubles up to the maximum. */
const NO_FLEET_PAUSE_MS = 5_000;
const NO_FLEET_PAUSE_MAX_MS = 600_000;

type JobStep = Step<Job, JobCommand>;

export const enter = (job: Job, stage: Stage): Job => ({ ...job, stage });

/** Nothing was granted, and the job is to stop: its last message to the fleet, then its end. */
export const endWaiting = (job: Job): Job =>
  tell(enter(job, { kind: "ending" }), endEntry(job, job.seq), "end", lastExitOf(job));

/** A reason to stop, or a grant, ends every kind of waiting; a job that is to be moved gives the grant back. */
function endedWaiting(job: Job): Job | undefined {
  if (job.reason !== undefined) return endWaiting(job);
  return job.grant === undefined || job.moving !== undefined || job.former !== undefined
    ? undefined
    : enter(job, { kind: "granted", grant: job.grant });
}

export function unasked(job: Job, nowMs: number): JobStep {
  const ended = endedWaiting(job);
  if (ended !== undefined) return quiet(ended);
  // Also without a request: what the fleet keeps for its return is free then.
  if (job.moving !== undefined) return quiet(takeBack(job, nowMs));
  if (!job.isHeld)
    return quiet(tellRequest(enter(job, { kind: "asking" }), "request", { atMs: nowMs }));
  if (!job.hasRequest) return becomeHeld(job);
  return quiet(takeBack(job, nowMs));
}

/** An update is durable only once this workflow task is, and what the fleet is told because of it must not go before it. */
const takeBack = (job: Job, nowMs: number): Job => enter(job, { kind: "holding", atMs: nowMs + 1 });

/** A local activity ends in the workflow task in which it began: the time that it took makes nothing durable. */
export function notYetDurable(job: Job, nowMs: number): Job {
  const { rules, stage, reask, actsAtMs } = job;
  if (rules < DURABLE_ORDER_RULES) return job;
  const late: Job = {
    ...job,
    ...(reask !== undefined && { reask: { ...reask, atMs: nowMs + 1 } }),
    ...(actsAtMs !== undefined && { actsAtMs: nowMs + 1 }),
  };
  return stage.kind === "holding" ? takeBack(late, nowMs) : late;
}

/** The fleet has the request, or does not exist. */
export function asked(job: Job, result: NotifyResult, nowMs: number): Job {
  if (result.kind === "delivered") return enter(job, { kind: "waiting" });
  const unheard = { ...job, hasRequest: false };
  if (result.kind === "silent") return enter(unheard, { kind: "unasked" });
  const noted = { ...unheard, pending: noFleet(presentFleet(job.cells), result.message) };
  if (isTimeToLeave(noted)) return enter(noted, { kind: "no-fleet", untilMs: nowMs });
  const pauseMs = Math.min(NO_FLEET_PAUSE_MS * 2 ** job.noFleetPauses, NO_FLEET_PAUSE_MAX_MS);
  return enter(
    { ...noted, noFleetPauses: job.noFleetPauses + 1 },
    { kind: "no-fleet", untilMs: nowMs + (patienceMs(job.cells) ?? pauseMs) },
  );
}

/** The same for a request that was repeated because the fleet wanted to hear it: a fleet that is back has it now. */
export function repeated(job: Job, result: NotifyResult): Job {
  if (result.kind !== "delivered") return { ...job, hasRequest: false };
  return job.stage.kind === "no-fleet" ? enter(job, { kind: "waiting" }) : job;
}

export function waiting(job: Job, nowMs: number): Job {
  const ended = endedWaiting(job);
  if (ended !== undefined) return ended;
  if (hasIdleGrant(job)) return job;
  if (job.isHeld || job.moving !== undefined) return enter(job, { kind: "unasked" });
  if (job.reask !== undefined) return job.reask.atMs <= nowMs ? askAgain(job) : job;
  // Without the hosts that refused there is nowhere to go, so those are asked again.
  const isRested = askAnewAtMs(job) <= nowMs;
  if (isRested && job.rules >= RESTED_ANYWAY_RULES) return askRested(job);
  if (hasNoHostLeft(job) || isRested) return withdrawTo({ ...job, avoidHosts: [] }, "ask");
  const isTime = isTimeToLeave(job) || outsideUntilMs(job) <= nowMs;
  return isTime ? withdrawTo(job, "leave") : job;
}

/** It has its GPUs, and what the run before a reset started has yet to end. */
const hasIdleGrant = ({ grant, former, moving }: Job): boolean =>
  grant !== undefined && former !== undefined && moving === undefined;

/** When a job that waits acts next by itself. */
export const waitingDueAtMs = (job: Job): number =>
  hasIdleGrant(job)
    ? Infinity
    : Math.min(outsideUntilMs(job), askAnewAtMs(job), job.reask?.atMs ?? Infinity);

const askAnewAtMs = (job: Job): number =>
  restedAtMs(job, { rules: job.rules, askedAtMs: job.requestedAtMs });

/** Other hosts may do, and it has waited for them: it keeps its age, and what is reserved for it. */
function askRested(job: Job): Job {
  const anew = answeredEarly({ ...withoutPending(job), avoidHosts: [], seq: job.seq + 1 });
  return (
    endedWaiting(anew) ?? askAgain({ ...anew, reask: { atMs: job.requestedAtMs, ...exitOf(job) } })
  );
}

/** Its settings, or its hosts, have changed: the request takes the place of the former one, and keeps its age. */
const askAgain = (job: Job): Job =>
  tellRequest(enter(job, { kind: "asking" }), "request", { atMs: job.requestedAtMs });

export function withoutFleet(job: Job, untilMs: number, nowMs: number): Job {
  const ended = endedWaiting(job);
  if (ended !== undefined) return ended;
  if (job.moving !== undefined) return enter(job, { kind: "unasked" });
  if (nowMs < untilMs && !job.isHeld) return job;
  const isMoving = !job.isHeld && patienceMs(job.cells) !== undefined;
  return isMoving ? withdrawTo(job, "leave") : enter(job, { kind: "unasked" });
}

export function holding(job: Job, atMs: number, nowMs: number): Job {
  if (job.reason !== undefined) return endWaiting(job);
  if (nowMs < atMs) return job;
  return withdrawTo(job, job.moving === undefined ? "hold" : "leave");
}

/** The fleet has heard that the request is over. */
export function withdrawn(job: Job, next: Withdrawal): JobStep {
  if (job.reason !== undefined) return quiet(endWaiting(job));
  switch (next) {
    case "hold":
      return becomeHeld(job);
    case "ask":
      return quiet(enter(job, { kind: "unasked" }));
    case "leave":
      return ask(job, (id) => ({
        stage: { kind: "leaving", id },
        command: {
          kind: "until-forgotten",
          id,
          fleetWorkflowId: fleetWorkflowId(presentFleet(job.cells)),
          jobId: job.jobId,
        },
      }));
  }
}

export const leaving = (job: Job): Job => (job.reason === undefined ? job : endWaiting(job));

/** The marks come beside the three changes of a job's search attributes: without them a fleet that loses its ledger would not find it. */
export function forgotten(job: Job, nowMs: number): JobStep {
  const { moving, ...rest } = withoutPending(job);
  const { cells, move } =
    moving === undefined
      ? moveToNext(job.cells, job.pending, nowMs)
      : moveTo(job.cells, moving, nowMs);
  const { from, to, code } = move;
  // What was reserved for it, and how long no fleet answered, was of the former fleet.
  const anew = moving !== undefined && { isShrunk: false, noFleetPauses: 0 };
  const moved = { ...rest, cells, avoidHosts: [], ...anew };
  return {
    state: enter(moved, { kind: "unasked" }),
    commands: [
      { kind: "mark", mark: { fleet: to, home: job.home } },
      { kind: "memo", move: { from, to, code } },
    ],
  };
}

export function held(job: Job, nowMs: number): JobStep {
  if (job.reason !== undefined) return quiet(endWaiting(job));
  if (job.moving !== undefined) return quiet(takeBack(job, nowMs));
  // It was released in a task that was lost, which its fleet had heard of.
  const isGranted = job.grant !== undefined && job.rules >= DURABLE_GIVING_UP_RULES;
  if (job.isHeld) return quiet(isGranted ? takeBack(job, nowMs) : job);
  const { pause, ...rest } = job;
  const asking = enter({ ...rest, shown: "pending" }, { kind: "unasked" });
  return pause?.kind === "suspend" ? markAnew(asking, "pending") : quiet(asking);
}

function becomeHeld(job: Job): JobStep {
  const held = enter({ ...withoutPending(job), shown: "held" }, { kind: "held" });
  return job.pause?.kind === "suspend" ? markAnew(held, "held") : mark(held, "held");
}

/** A suspended job has made its changes: these come beside them, two for each order of a user, and its next run is marked again. */
export const markAnew = (job: Job, state: "held" | "pending"): JobStep => ({
  state: { ...job, marks: Math.min(job.marks, 1) },
  commands: [{ kind: "mark", mark: { state } }],
});

function withdrawTo(job: Job, next: Withdrawal): Job {
  const withdrawn = withdraw(job);
  return enter(next === "leave" ? withdrawn : withoutPending(withdrawn), {
    kind: "withdrawing",
    next,
  });
}

export function withoutPending(job: Job): Job {
  const { pending: _pending, ...rest } = job;
  return rest;
}

const isTimeToLeave = (job: Job): boolean =>
  !hasNoHostLeft(job) && shouldLeave(job.cells, job.pending);
