/**
 * @file Follows a call from the lobby: the job asks its fleet again, with the credit, under the number and the time of its request.
 *
 * A call that comes again is followed again, because the fleet may have put the job outside since, under the same credit; a request that it has
 * already changes nothing there. A call that the job cannot follow, because it is held, stops, runs or has moved on, goes back to the
 * lobby at once, which passes the credit on. One for a later request than the job's was for its run before a reset, as was one that finds the job without a
 * request because it waits for others, or for its release. One that comes before the job asks
 * under that number, say because a fleet that had lost its ledger was told of the request while the job backed off, waits until it asks.
 */

import type { Step } from "../machine.ts";
import {
  CALLED_END_RULES,
  DURABLE_ORDER_RULES,
  EARLY_CALL_RULES,
  KEPT_CALL_RULES,
  RECALLED_RULES,
  UNASKED_CALL_RULES,
} from "../../protocol/control-contract.ts";
import { quiet } from "../steps.ts";
import { changeLane, tell, tellRequest } from "./fleet-conversation.ts";
import type { Job, JobCommand } from "./job-state.ts";
import { exitUnder } from "./outside.ts";
import { isLobbyCall } from "./signals.ts";
import { withoutPending } from "./waiting.ts";

export function answerCall(job: Job): Step<Job, JobCommand> {
  const { call, ...rest } = job;
  if (call === undefined || job.stage.kind === "entering") return quiet(job);
  const { seq, credit, round } = call;
  if (job.stage.kind === "over") return quiet(rest);
  if (credit === job.usedCredit && job.rules < RECALLED_RULES) return quiet(rest);
  if (seq > job.seq && job.rules >= EARLY_CALL_RULES) return quiet(rest);
  if (seq === job.seq && isUnasked(job) && job.rules >= UNASKED_CALL_RULES) return quiet(rest);
  if (seq === job.seq && isYetToAsk(job) && job.rules >= KEPT_CALL_RULES) return quiet(job);
  if (seq === job.seq && isYetToLeave(job) && job.rules >= DURABLE_ORDER_RULES) return quiet(job);
  if (seq !== job.seq || !mayEnter(job))
    return quiet(tell(rest, undefined, "aside", exitUnder(job, seq)));
  const entering = { ...withoutPending(rest), round, usedCredit: credit };
  return quiet(tellRequest(entering, "answer", { atMs: job.requestedAtMs, credit }));
}

/** A job that is over still tells those that follow it: its lobby may hear of its end no other way for a while. */
export function calledLate(job: Job, call: unknown): Step<Job, JobCommand> {
  if (!isLobbyCall(call) || job.rules < CALLED_END_RULES) return quiet(job);
  const { exit } = exitUnder(job, call.seq);
  const id = job.lane.count + 1;
  if (exit === undefined) return quiet(job);
  return {
    state: changeLane(job, { count: id }),
    commands: [{ kind: "leave-lobby", id, exit }],
  };
}

const mayEnter = (job: Job): boolean =>
  (job.stage.kind === "waiting" || job.stage.kind === "asking") && isWanting(job);

/** It has made no request under its number: it waits for other jobs, or for its release. */
const isUnasked = ({ stage, hasRequest }: Job): boolean =>
  !hasRequest && (stage.kind === "following" || stage.kind === "held");

/** It is held, and takes its request back once that is durable: its lobby hears it then. */
const isYetToLeave = ({ grant, hasRequest, isHeld, reason }: Job): boolean =>
  isHeld && hasRequest && grant === undefined && reason === undefined;

const isYetToAsk = (job: Job): boolean =>
  (job.stage.kind === "backing-off" || job.stage.kind === "no-fleet") &&
  job.moving === undefined &&
  isWanting(job);

const isWanting = ({ grant, isHeld, reason }: Job): boolean =>
  grant === undefined && !isHeld && reason === undefined;
