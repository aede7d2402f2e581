/** @file What a job shows of itself: the answer to its query, the view of one attempt, and why it waits without a fleet. */

import type { PendingReason } from "../../domain/lease/pending.ts";
import { ledBy, type LaunchExtras } from "../../domain/lease/launch-extras.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { AttemptView, Grant, JobView } from "../../protocol/job.ts";
import { cellsView, presentFleet } from "./cells.ts";
import { earlyTasksView } from "./early-tasks.ts";
import type { AmendedSoFar, Job } from "./job-state.ts";

export function jobView(job: Job): JobView {
  const { jobId, cells, spec, shown, pending, submittedAtMs, attempts, pause, isHeld } = job;
  const ring = cellsView(cells);
  const { predecessors: after } = job;
  const given = job.grant?.lease.id;
  const array = earlyTasksView(job);
  const isBegun = given === undefined || attempts.some(({ leaseId }) => leaseId === given);
  return {
    jobId,
    fleet: presentFleet(cells),
    ...(ring !== undefined && { cells: ring }),
    ...(job.moving !== undefined && { moving: job.moving }),
    ...(spec !== undefined && { spec }),
    state: shown,
    ...(pending !== undefined && { pending }),
    submittedAtMs,
    ...(after.length > 0 && { after }),
    attempts,
    ...(array !== undefined && { array }),
    ...(!isBegun && { grantedLease: given }),
    ...(pause !== undefined && isHeld && { pause }),
    ...amendedView(job.amended),
    ...junkView(job),
  };
}

export const amendedView = ({ count, last }: AmendedSoFar): Pick<JobView, "amended"> =>
  count === 0 ? {} : { amended: { count, last } };

export const junkView = ({
  junkSignals,
}: Pick<Job, "junkSignals">): Pick<JobView, "junkSignals"> =>
  junkSignals === 0 ? {} : { junkSignals };

/** The view of a run that has just been granted. */
export function attemptView(
  { lease, agents, predictedGBs, bandwidth, reason }: Grant,
  run: {
    readonly attempt: number;
    readonly requestedAtMs: number;
    readonly launch: "per-gpu" | "per-host";
  },
): AttemptView {
  let nextRank = 0;
  return {
    attempt: run.attempt,
    leaseId: lease.id,
    requestedAtMs: run.requestedAtMs,
    grantedAtMs: lease.grantedAtMs,
    gpus: lease.gpus.map(({ host, mask }) => {
      const count = run.launch === "per-gpu" ? popCount(mask) : 1;
      const ranks = Array.from({ length: count }, (_, index) => nextRank + index);
      nextRank += count;
      return {
        host,
        mask,
        orderQueue: agents.find((entry) => entry.host === host)?.agent.orderQueue ?? "",
        ranks,
      };
    }),
    ...(predictedGBs !== undefined && { predictedGBs }),
    ...(bandwidth !== undefined && { bandwidth }),
    reason,
  };
}

/** The hosts of a run whose ranks begin on this one. */
export function ledAttempt(
  gpus: AttemptView["gpus"],
  lead: LaunchExtras["leadHost"],
): AttemptView["gpus"] {
  let nextRank = 0;
  return ledBy(gpus, lead).map((part) => {
    const ranks = part.ranks.map((_, index) => nextRank + index);
    nextRank += ranks.length;
    return { ...part, ranks };
  });
}

export const noFleet = (fleet: string, message: string): PendingReason => ({
  code: "NoFleet",
  message: `fleet "${fleet}" does not answer (${message}); the job asks again. Start it with \`orbweaver up\`.`,
  numbers: {},
  holders: [],
  wakeOn: ["timer"],
});
