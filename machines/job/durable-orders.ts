/**
 * @file When a job acts on an order to give up its run: at once where hosts are to stop it, which they are told once the order is in history, and in a later task of the
 * workflow where nothing has been started.
 *
 * The fleet is told by a local activity, so within the task that takes the order. Were that task lost, and the order with it, the job would start on a lease that its
 * fleet has freed.
 */

import { DURABLE_GIVING_UP_RULES } from "../../protocol/control-contract.ts";
import type { GivenUp } from "../../protocol/job-orders.ts";
import type { Job } from "./job-state.ts";

export const noteGivenUp = (job: Job, givenUp: GivenUp, nowMs: number): Job => ({
  ...job,
  givenUp,
  ...(job.rules >= DURABLE_GIVING_UP_RULES && { actsAtMs: nowMs + 1 }),
});

/** Whether it would end a run of which nothing was started for an order alone that is not durable yet. */
export const isYetToGiveUp = (
  { reason, preempt, fenced, actsAtMs = 0 }: Job,
  nowMs: number,
): boolean =>
  nowMs < actsAtMs && reason === undefined && preempt === undefined && fenced.length === 0;

/** A gang that knows of the order acts by itself. */
export function actsDueAtMs({ stage, actsAtMs = Infinity }: Job): number {
  const isUntold = stage.kind === "running" && stage.gang.reason === undefined;
  return stage.kind === "ready" || isUntold ? actsAtMs : Infinity;
}
