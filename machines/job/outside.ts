/**
 * @file A job whose request the fleet has put outside, into its tenant's lobby: what the lobby hears when it leaves, and how long it stays.
 *
 * It needs no timer against lost words: its request is a durable signal at the fleet, the fleet keeps the row until the lobby has it, and
 * those that lose rows ask the jobs. The fleet cannot measure the patience of a request that it does not have, so the job does.
 */

import { CALLED_END_RULES } from "../../protocol/control-contract.ts";
import type { LobbyExit } from "../../protocol/lobby-contract.ts";
import { ms, type Ms } from "../../domain/values/units.ts";
import { patienceMs, presentFleet } from "./cells.ts";
import type { Job } from "./job-state.ts";

/** As far as the job was told. */
export const isOutside = ({ grant, hasRequest, pending }: Job): boolean =>
  grant === undefined && hasRequest && pending?.code === "QueueFull";

/** The word to the lobby that goes with the end of the present request; nothing for a job that waits inside. */
export function exitOf(job: Job): { readonly exit?: LobbyExit } {
  const { reask, seq } = job;
  if (reask !== undefined) return reask.exit === undefined ? {} : { exit: reask.exit };
  return isOutside(job) ? exitUnder(job, seq) : {};
}

/** The same for a job that ends. The call that comes with its reason may be the first that it hears of its place. */
export const lastExitOf = (job: Job): { readonly exit?: LobbyExit } =>
  job.call?.seq === job.seq && job.rules >= CALLED_END_RULES
    ? exitUnder(job, job.seq)
    : exitOf(job);

export function exitUnder(
  { jobId, runId, spec, cells, tenantBefore }: Job,
  seq: number,
): { readonly exit?: LobbyExit } {
  if (spec === undefined) return {};
  const isFormer = tenantBefore !== undefined && seq <= tenantBefore.upTo;
  const { class: jobClass } = spec;
  const tenant = isFormer ? tenantBefore.tenant : spec.tenant;
  return {
    exit: { fleet: presentFleet(cells), tenant, jobId, runId, seq, class: jobClass },
  };
}

/**
 * How long it waits for its present request at its present fleet: of the first one, as long as is left since its submission. Undefined where it
 * has nowhere else to go.
 */
export function patienceOf({ cells, seq, lateMs }: Job): Ms | undefined {
  const patience = patienceMs(cells);
  const isFirst = seq === 1 && cells.moved === 0;
  return patience === undefined || !isFirst ? patience : ms(Math.max(0, patience - lateMs));
}

/** When the job's patience with a fleet ends that has put it outside; infinite where it has nowhere else to go. */
export function outsideUntilMs(job: Job): number {
  const patience = patienceOf(job);
  return patience === undefined || !isOutside(job) ? Infinity : job.requestedAtMs + patience;
}
