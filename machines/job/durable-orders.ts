/**
 * @file When a job acts on orders of which its fleet hears by a local activity, so within the task that takes them: in a later task of the workflow, once they are
 * durable. Were the task lost, and the order with it, the job would start on a lease that its fleet has freed, or hold GPUs while it is held.
 *
 * An order to give up a run that its hosts are to stop needs no wait: they are told once the order is in history.
 */

import { DURABLE_GIVING_UP_RULES } from "../../protocol/control-contract.ts";
import type { GivenUp } from "../../protocol/job-orders.ts";
import type { Job } from "./job-state.ts";

export const noteGivenUp = (job: Job, givenUp: GivenUp, nowMs: number): Job =>
  actLater({ ...job, givenUp }, nowMs);

/** From the task after this one on. */
export const actLater = (job: Job, nowMs: number): Job =>
  job.rules < DURABLE_GIVING_UP_RULES ? job : { ...job, actsAtMs: nowMs + 1 };

/** Whether it would end a run of which nothing was started for an order alone that is not durable yet. */
export const isYetToGiveUp = (job: Job, nowMs: number): boolean =>
  isYetToAct(job, nowMs) &&
  job.reason === undefined &&
  job.preempt === undefined &&
  job.fenced.length === 0;

export const isYetToAct = ({ actsAtMs = 0 }: Job, nowMs: number): boolean => nowMs < actsAtMs;

/** A gang that knows of the order acts by itself. */
export function actsDueAtMs({ stage, givenUp, isHeld, actsAtMs = Infinity }: Job): number {
  const isReleased = stage.kind === "held" && !isHeld;
  const isUntold = stage.kind === "running" && stage.gang.reason === undefined;
  const isGivingUp = givenUp !== undefined && (stage.kind === "ready" || isUntold);
  return isReleased || isGivingUp ? actsAtMs : Infinity;
}
