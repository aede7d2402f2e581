/**
 * @file The lease of a run of this job's workflow that was reset: the fleet takes it back, and the job asks until nothing of it is left.
 *
 * A reset gives the workflow another run id, under which the fleet has never heard of the lease. The job's attempt on it goes on until the
 * fleet says that the lease is gone; then its hosts count as lost, and the next attempt asks anew.
 */

import type { Step } from "../machine.ts";
import { quiet } from "../steps.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { loseHosts } from "./attempt.ts";
import { presentFleet } from "./cells.ts";
import { changeLane } from "./fleet-conversation.ts";
import type { Job, JobCommand } from "./job-state.ts";

/** Sweeping the lease of a closed run takes this long at best; a silent host may take its fence. */
const ASK_PAUSE_MS = 1_000;
const ASK_PAUSE_MAX_MS = 60_000;

/** Asks the fleet about the orphan lease when that is due, and forgets a lease that the job has left. */
export function watchOrphan(job: Job, nowMs: number): Step<Job, JobCommand> {
  const { orphan } = job;
  if (orphan === undefined) return quiet(job);
  if (orphan.lease !== job.grant?.lease.id) return quiet(withoutOrphan(job));
  const { askAtMs = Infinity, ...rest } = orphan;
  if (nowMs < askAtMs) return quiet(job);
  const id = job.lane.count + 1;
  const asking = changeLane({ ...job, orphan: { ...rest, askId: id } }, { count: id });
  const at = fleetWorkflowId(presentFleet(job.cells));
  return {
    state: asking,
    commands: [{ kind: "has-lease", id, fleetWorkflowId: at, lease: orphan.lease }],
  };
}

/** The fleet's answer: the job asks again later, or its attempt is over. */
export function orphanAnswered(
  job: Job,
  { id, isThere }: { readonly id: number; readonly isThere: boolean },
  nowMs: number,
): Job {
  const { orphan } = job;
  if (orphan?.askId !== id) return job;
  const { lease, gpus, pauses } = orphan;
  if (isThere) {
    const pauseMs = Math.min(ASK_PAUSE_MS * 2 ** pauses, ASK_PAUSE_MAX_MS);
    return { ...job, orphan: { lease, gpus, pauses: pauses + 1, askAtMs: nowMs + pauseMs } };
  }
  const gone = withoutOrphan(job);
  const isHeld = lease === job.grant?.lease.id;
  return isHeld
    ? loseHosts(
        gone,
        gpus.map(({ host }) => host),
      )
    : gone;
}

function withoutOrphan(job: Job): Job {
  const { orphan: _gone, ...rest } = job;
  return rest;
}
