/**
 * @file One attempt of a job, from its grant to the decision about the next: launch extras, the gang, the end that the fleet is told.
 *
 * A run that was preempted is followed at once by a new request with the old seniority. It goes on from its newest checkpoint and is not
 * charged to the retry rule.
 */

import type { Step, Tick } from "../machine.ts";
import { andThen, forEach, quiet } from "../steps.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";
import { clusterOf, type HostId, type Token } from "../../domain/values/ids.ts";
import type { AttemptView, Grant } from "../../protocol/job.ts";
import type { GivenUp } from "../../protocol/job-orders.ts";
import {
  DOUBTED_LEASE_RULES,
  MOVED_JOB_RULES,
  TOLD_FAULT_RULES,
} from "../../protocol/control-contract.ts";
import type { LaunchExtrasReport } from "../../protocol/launch-extras-contract.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import { calledOff, type GangEnd } from "../gang/gang-end.ts";
import type { GangCommand } from "../gang/gang-commands.ts";
import type { Gang, GangAnswer, GangEvent } from "../gang/gang-state.ts";
import { openGang, stepGang } from "../gang/gang.ts";
import { gaveWay, preemptionOf, settledPreemption } from "../gang/preemption.ts";
import { isHostsRefusal, verdictOn } from "../gang/retry-verdict.ts";
import { presentFleet, settleCells } from "./cells.ts";
import { advanceRequest, ask, endEntry, tell } from "./fleet-conversation.ts";
import { isYetToGiveUp } from "./durable-orders.ts";
import { finish } from "./job-end.ts";
import { attemptView, ledAttempt } from "./job-view.ts";
import type { Job, JobCommand, Stage } from "./job-state.ts";
import { mark } from "./marks.ts";
import { stopReasonOf } from "./paused.ts";
import { hasLocalCheckpoints } from "./moved.ts";
import { polishLater } from "./polish.ts";
import { accountAfter, keptBeside, replacementMs } from "./replacement.ts";
import { enter, withoutPending } from "./waiting.ts";

type JobStep = Step<Job, JobCommand>;

/** Runs whose checkpoints are put in order. */
const MOST_TOKENS = 32;

export function granted(job: Job, grant: Grant, nowMs: number): JobStep {
  const { spec, attempts, requestedAtMs } = job;
  if (spec === undefined) return quiet(job);
  const { launch } = spec.run;
  const attempt = attempts.length + 1;
  const { lease } = grant;
  const noted = notePreemption(
    {
      ...job,
      ...(hasLocalCheckpoints(job) && { cells: settleCells(job.cells) }),
      ranUnder: [...job.ranUnder, { fleet: presentFleet(job.cells), token: lease.token }].slice(
        -MOST_TOKENS,
      ),
      attempts: [...attempts, attemptView(grant, { attempt, requestedAtMs, launch })],
      shown: "running" as const,
    },
    nowMs,
  );
  const former = attempts
    .flatMap(({ launchExtras = [] }) => launchExtras)
    .flatMap(({ planned = [] }) => planned)
    .at(-1);
  const clusters = [...new Set(lease.gpus.map((part) => clusterOf(part.host)))];
  return andThen(mark(noted, "running", clusters), (marked) => {
    if (isCalledOff(marked) || marked.extras.length === 0)
      return quiet(enter(marked, { kind: "ready", grant }));
    return ask(marked, (id) => ({
      stage: { kind: "preparing", grant, id },
      command: {
        kind: "make-extras",
        id,
        order: {
          fleetWorkflowId: fleetWorkflowId(presentFleet(marked.cells)),
          jobId: marked.jobId,
          spec,
          gpus: lease.gpus,
          attempt,
          parts: marked.extras,
          mayLead: true,
          ...(former !== undefined && { former }),
        },
      },
    }));
  });
}

/** Anything that stops the attempt before its start ends the wait for its extras. */
export function preparing(job: Job, grant: Grant, id: number): JobStep {
  if (!isCalledOff(job)) return quiet(job);
  const ready = enter(job, { kind: "ready", grant });
  return { state: ready, commands: [{ kind: "cancel-extras", id }] };
}

export function prepared(
  job: Job,
  { grant, report }: { readonly grant: Grant; readonly report: LaunchExtrasReport | null },
  nowMs: number,
): Job {
  const { env, files, leadHost, notes } = report ?? withoutExtras(job);
  const launchExtras = { env, files, ...(leadHost !== undefined && { leadHost }) };
  const noted = changeAttempt(polishLater(job, report, nowMs), (attempt) => ({
    ...attempt,
    gpus: ledAttempt(attempt.gpus, leadHost),
    launchExtras: notes,
  }));
  return enter(noted, { kind: "ready", grant, launchExtras });
}

const withoutExtras = ({ extras }: Job): LaunchExtrasReport => ({
  env: {},
  files: [],
  notes: extras.map((part) => ({
    part,
    kind: "fallback",
    message:
      "started without: no solver worker made it in time. Look at `orbweaver worker --role solver`.",
  })),
});

/** Starts the gang, unless there is a reason to stop already: then nothing was started. */
export function ready(
  job: Job,
  { grant, launchExtras }: Extract<Stage, { readonly kind: "ready" }>,
  nowMs: number,
): JobStep {
  const { rules, spec, jobId, runId, cells, attempts, suspendedRunMs } = job;
  const formerTokens = tokensElsewhere(job);
  if (spec === undefined) return quiet(job);
  if (isCalledOff(job))
    return quiet(isYetToGiveUp(job, nowMs) ? job : settle(job, calledOff(nowMs)));
  const input = {
    jobId,
    workflowRunId: runId,
    fleetWorkflowId: fleetWorkflowId(presentFleet(cells)),
    spec,
    grant,
    attempt: attempts.length,
    ...(rules >= DOUBTED_LEASE_RULES && { isLeaseAsked: true as const }),
    ...(rules >= TOLD_FAULT_RULES && { hearsOfFaults: true as const }),
    ...(suspendedRunMs > 0 && { ranMs: suspendedRunMs }),
    ...(formerTokens.length > 0 && { formerTokens }),
    ...(launchExtras !== undefined && { launchExtras }),
  };
  return ofGang(job, openGang(input, nowMs));
}

/** An answer to a command of the gang, or time for it; without a gang it changes nothing. */
export function toGang(job: Job, event: GangAnswer | Tick, nowMs: number): JobStep {
  if (job.stage.kind !== "running") return quiet(job);
  return ofGang(job, stepGang(job.stage.gang, event, nowMs));
}

/** Tells the gang of a reason to stop and of fenced hosts that it does not know yet. */
export function running(job: Job, gang: Gang, nowMs: number): JobStep {
  const { reason, preempt, fenced, isKilled, givenUp } = job;
  const wanted = reason ?? stopReasonOf(givenUp);
  const lost = fenced.filter((host) => !gang.fenced.has(host));
  const news: readonly GangEvent[] = [
    ...(wanted !== undefined && gang.reason === undefined
      ? [{ kind: "stop", reason: wanted } as const]
      : []),
    ...(preempt !== undefined && gang.preempt === undefined
      ? [{ kind: "preempt", order: preempt } as const]
      : []),
    ...(isKilled === true && gang.isKilled !== true ? [{ kind: "kill" } as const] : []),
    ...(lost.length > 0 ? [{ kind: "fenced", hosts: lost } as const] : []),
  ];
  if (news.length === 0) return quiet(job);
  const stepped = forEach(gang, news, (before, event) => stepGang(before, event, nowMs));
  const isEarly = stepped.state.end !== undefined && isYetToGiveUp(job, nowMs);
  return isEarly ? quiet(job) : ofGang(job, stepped);
}

function ofGang(job: Job, { state: gang, commands }: Step<Gang, GangCommand>): JobStep {
  const running: Job = {
    ...job,
    stage: { kind: "running", gang },
    ...(gang.isStopping && { shown: "stopping" }),
  };
  return { state: gang.end === undefined ? running : settle(running, gang.end), commands };
}

/** The run is over: its end is noted, and the fleet is told. */
function settle(job: Job, end: GangEnd): Job {
  const { end: how, cause, startedAtMs, endedAtMs, checkpoint } = end;
  const { measuredGbs, stepMs, ncclPlugins, peakMemoryBytes } = end;
  const { givenUp } = job;
  const isGivenUp = givenUp !== undefined && gaveWay(end);
  const noted = changeAttempt(job, ({ preempted, ...former }) => {
    const isPreempted = preempted !== undefined && gaveWay(end);
    return {
      ...former,
      end: how,
      endedAtMs,
      ...(startedAtMs !== undefined && { startedAtMs }),
      ...(measuredGbs !== undefined && { measuredGbs }),
      ...(stepMs !== undefined && { stepMs }),
      ...(ncclPlugins !== undefined && { ncclPlugins }),
      ...(peakMemoryBytes !== undefined && { peakMemoryBytes }),
      ...(checkpoint !== undefined && { checkpoint: checkpoint.path }),
      ...(cause !== undefined && !isPreempted && !isGivenUp && { cause }),
      ...(isGivenUp && { givenUp }),
      ...(isPreempted && {
        preempted: settledPreemption(preempted, end, gpuCountOf(former.gpus)),
      }),
    };
  });
  const ended = new Set(noted.attempts.at(-1)?.gpus.map(({ host }) => host));
  const doubtful = [...end.unconfirmedHosts, ...job.doubtful.filter((host) => !ended.has(host))];
  const over = enter({ ...noted, doubtful }, { kind: "settling", end });
  const isLeaving = job.isHeld || job.moving !== undefined;
  const mayReturn = end.end !== "completed" && job.reason === undefined && !isLeaving;
  const entry = endEntry(over, job.seq);
  if (!mayReturn || entry.kind !== "end") return tell(over, entry, "settle");
  const keepMs = replacementMs(job, end);
  const kept = keepMs === undefined ? {} : { keepMs };
  return tell(over, { ...entry, returns: true, ...kept }, "settle");
}

/** The fleet knows that the run is over: the job ends, or asks again. */
export function settled(job: Job, end: GangEnd, nowMs: number): JobStep {
  const { spec, reason, preempt, givenUp } = job;
  const account = accountAfter(job, end);
  if (end.end === "completed" || reason !== undefined || spec === undefined)
    return finish(job, end);
  const isPreempted = preempt !== undefined && gaveWay(end);
  const isGivenUp = givenUp !== undefined && gaveWay(end);
  const givesWay = isPreempted || isGivenUp;
  const verdict = givesWay
    ? ({ kind: "again", backoffMs: 0, account } as const)
    : verdictOn({ cause: end.cause, account, avoidHosts: job.avoidHosts }, spec);
  if (verdict.kind === "final") return finish(job, end);
  const refusing =
    end.cause !== undefined && isHostsRefusal(end.cause.code) ? [end.cause.host] : [];
  const keepMs = replacementMs(job, end);
  return quiet({
    ...advanceRequest(withoutPending(job)),
    ...(keepMs !== undefined && { kept: keptBeside(job, end, nowMs + keepMs) }),
    account: verdict.account,
    ...(isGivenUp && { suspendedRunMs: ranMs(job, end, givenUp.kind) }),
    avoidHosts: [...job.avoidHosts, ...refusing],
    isShrunk: isPreempted && !isGivenUp && preempt.keep !== undefined,
    noFleetPauses: 0,
    shown: "pending",
    // What is kept for a gang stands idle until it asks.
    stage:
      givesWay || keepMs !== undefined
        ? { kind: "unasked" }
        : { kind: "backing-off", untilMs: nowMs + Math.max(1, verdict.backoffMs) },
  });
}

export const backingOff = (job: Job, untilMs: number, nowMs: number): Job =>
  job.reason !== undefined || job.moving !== undefined || untilMs <= nowMs
    ? enter(job, { kind: "unasked" })
    : job;

/** Shows on the run of this lease that it is to give up its GPUs. */
export function notePreemption(job: Job, nowMs: number): Job {
  const { preempt, attempts } = job;
  const last = attempts.at(-1);
  if (preempt === undefined || last?.leaseId !== preempt.lease || last.end !== undefined)
    return job;
  return changeAttempt(job, (attempt) => ({
    preempted: preemptionOf(preempt, nowMs),
    ...attempt,
  }));
}

/** The fleet has given up those of these hosts that are in the present grant. */
export function loseHosts(job: Job, hosts: readonly HostId[]): Job {
  const granted = job.grant?.lease.gpus.map(({ host }) => host) ?? [];
  const lost = granted.filter((host) => hosts.includes(host) || job.fenced.includes(host));
  return { ...job, fenced: lost };
}

/** The time of a suspended or moved run counts against the time limit of the job; a requeued job begins anew. */
const ranMs = (
  { suspendedRunMs }: Job,
  { startedAtMs, endedAtMs }: GangEnd,
  kind: GivenUp["kind"],
): number =>
  kind !== "requeue" ? suspendedRunMs + Math.max(0, endedAtMs - (startedAtMs ?? endedAtMs)) : 0;

/** Tokens of the runs before the present one, where another fleet has granted one of them. */
function tokensElsewhere({ rules, cells, ranUnder }: Job): readonly Token[] {
  const former = ranUnder.slice(0, -1);
  const here = presentFleet(cells);
  const isElsewhere = rules >= MOVED_JOB_RULES && former.some(({ fleet }) => fleet !== here);
  return isElsewhere ? former.map(({ token }) => token) : [];
}

const isCalledOff = ({ reason, preempt, fenced, givenUp }: Job): boolean =>
  reason !== undefined || preempt !== undefined || givenUp !== undefined || fenced.length > 0;

const changeAttempt = (job: Job, change: (last: AttemptView) => AttemptView): Job => ({
  ...job,
  attempts: job.attempts.map((attempt, at) =>
    at === job.attempts.length - 1 ? change(attempt) : attempt,
  ),
});
