/**
 * @file The lease of a run of this job's workflow that was reset: the fleet takes it back, and the job asks until nothing of it is left.
 *
 * A reset gives the workflow another run id, under which the fleet has never heard of the lease. The job's attempt on it goes on until the
 * fleet says that the lease is gone; then its hosts count as lost, and the next attempt asks anew. A run that was reset to its beginning has no such attempt:
 * it asks for GPUs of its own, and starts nothing on them until the former lease is gone, so that the job runs once at a time.
 */

import type { Lease } from "../../domain/lease/lease.ts";
import type { LeaseId } from "../../domain/values/ids.ts";
import type { Step } from "../machine.ts";
import { quiet } from "../steps.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { loseHosts } from "./attempt.ts";
import { presentFleet } from "./cells.ts";
import { changeLane } from "./fleet-conversation.ts";
import type { AskedLease, Job, JobCommand } from "./job-state.ts";

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
  return asked(job, orphan.lease, (askId) => ({ orphan: { ...rest, askId } }));
}

/** Asks the fleet about the lease of the run before the reset when that is due. */
export function watchFormer(job: Job, nowMs: number): Step<Job, JobCommand> {
  if (job.former === undefined) return quiet(job);
  const { askAtMs = Infinity, ...rest } = job.former;
  if (nowMs < askAtMs) return quiet(job);
  return asked(job, rest.lease, (askId) => ({ former: { ...rest, askId } }));
}

function asked(
  job: Job,
  lease: LeaseId,
  change: (askId: number) => Pick<Job, "orphan" | "former">,
): Step<Job, JobCommand> {
  const id = job.lane.count + 1;
  const at = fleetWorkflowId(presentFleet(job.cells));
  return {
    state: changeLane({ ...job, ...change(id) }, { count: id }),
    commands: [{ kind: "has-lease", id, fleetWorkflowId: at, lease }],
  };
}

/** Of several the last one is waited for: what was before it had ended when it was granted. */
export function awaitFormer(job: Job, { id: lease, grantedAtMs }: Lease, nowMs: number): Job {
  if (job.former !== undefined && job.former.grantedAtMs >= grantedAtMs) return job;
  return { ...job, former: { lease, grantedAtMs, pauses: 0, askAtMs: nowMs } };
}

/** The fleet's answer: the job asks again later, or its attempt is over. */
export function orphanAnswered(
  job: Job,
  { id, isThere }: { readonly id: number; readonly isThere: boolean },
  nowMs: number,
): Job {
  const { orphan, former, ...others } = job;
  if (former?.askId === id)
    return isThere
      ? { ...job, former: laterAsked(former, nowMs) }
      : { ...others, ...(orphan && { orphan }) };
  if (orphan?.askId !== id) return job;
  if (isThere) return { ...job, orphan: laterAsked(orphan, nowMs) };
  const { lease, gpus } = orphan;
  const gone = withoutOrphan(job);
  const isHeld = lease === job.grant?.lease.id;
  return isHeld
    ? loseHosts(
        gone,
        gpus.map(({ host }) => host),
      )
    : gone;
}

function laterAsked<Kind extends AskedLease>({ askId: _answered, ...known }: Kind, nowMs: number) {
  const pauseMs = Math.min(ASK_PAUSE_MS * 2 ** known.pauses, ASK_PAUSE_MAX_MS);
  return { ...known, pauses: known.pauses + 1, askAtMs: nowMs + pauseMs };
}

function withoutOrphan(job: Job): Job {
  const { orphan: _gone, ...rest } = job;
  return rest;
}
