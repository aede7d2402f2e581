/**
 * @file The workflow of one job: feeds signals, updates and answers to the job's state machine, and carries its commands out.
 *
 * The life of a job is in `machines/job/job.ts`. An array's own logic takes over once its file is read.
 * History of a one-host job that runs at once: 19 events; each further host costs at most 6 (docs/decisions/0003).
 */

import {
  CancellationScope,
  patched,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  upsertMemo,
  workflowInfo,
} from "@temporalio/workflow";
import type { ArrayEntry } from "../../machines/array/array-state.ts";
import { runId as toRunId, type JobId } from "../../domain/values/ids.ts";
import { presentFleet } from "../../machines/job/cells.ts";
import { jobMachine, openJob } from "../../machines/job/job.ts";
import type {
  Job,
  JobCommand,
  JobEvent,
  JobIdentity,
  JobOutcome,
  Stage,
} from "../../machines/job/job-state.ts";
import { jobSummary } from "../../machines/job/job-summary.ts";
import { jobView } from "../../machines/job/job-view.ts";
import {
  KEPT_WORDS_JOB_RULES,
  SIGNED_JOB_RULES,
  SIGNED_ORDER_JOB_RULES,
  type JobActivities,
} from "../../protocol/control-contract.ts";
import {
  AMENDED_MEMO,
  assertSignal,
  callInSignal,
  CELL_MEMO,
  DEFAULT_FLEET,
  fencedSignal,
  fleetWorkflowId,
  grantSignal,
  grantsSignal,
  jobViewQuery,
  killSignal,
  pendingSignal,
  predecessorSignal,
  preemptSignal,
  type JobOptions,
  type JobResult,
  WAITS_MEMO,
} from "../../protocol/messages.ts";
import type { SealFlaw } from "../../protocol/seal.ts";
import { runJobArray, type EndedArray } from "../array/job-array.ts";
import { gangCarrier } from "../gang/carry-out.ts";
import { drive, type Drive } from "../runtime/drive.ts";
import { acceptWords, flawOfInput, onSignal, onUnknownSignal } from "../runtime/signal-intake.ts";
import { askForProof, believeAll, believeRoles, keepWords } from "../runtime/word-gate.ts";
import { failure, readId } from "./failure.ts";
import { followJobs, onFollow, refuseFollowers, tellFollowersEnd, tellStart } from "./followers.ts";
import { acceptOrders, acceptTaskOrders } from "./job-orders.ts";
import { extrasCarrier, polish } from "./launch-extras.ts";
import { mark, STATE } from "./search-attributes.ts";

const { admit } = proxyLocalActivities<Pick<JobActivities, "admit">>({
  summary: "the job file, read and checked",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});
const { tellFleet, leaveLobby } = proxyLocalActivities<
  Pick<JobActivities, "tellFleet" | "leaveLobby">
>({
  summary: "what the job asks of its fleet, or gives back",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});
const LOCAL: ReadonlySet<JobCommand["kind"]> = new Set(["admit", "tell", "leave-lobby"] as const);
/** No local activities: they may take as long as a fleet is away, and what the job tells must not wait for them. */
const { hasLease } = proxyActivities<Pick<JobActivities, "hasLease">>({
  summary: "whether the fleet still has the lease",
  startToCloseTimeout: "20s",
  retry: { initialInterval: "500ms", maximumInterval: "10s" },
});
const { untilForgotten } = proxyActivities<Pick<JobActivities, "untilForgotten">>({
  summary: "until the former fleet holds nothing of the job",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
});

export async function job(file: unknown, options?: JobOptions | null): Promise<JobResult> {
  const { workflowId, runId, startTime, typedSearchAttributes } = workflowInfo();
  const identity: JobIdentity = {
    jobId: readId(workflowId),
    runId: toRunId(runId),
    home: typeof options?.fleet === "string" ? options.fleet : DEFAULT_FLEET,
    submittedAtMs: startTime.getTime(),
    isListed: typedSearchAttributes.get(STATE) !== undefined,
  };
  keepWords();
  const opened = openJob(identity, Date.now());
  const life = drive<Job, JobEvent, JobCommand>(
    {
      machine: jobMachine,
      state: opened.state,
      carryOut: carrier(identity.jobId, file, () => acceptTaskOrders(life)),
      isLocal: ({ kind }) => LOCAL.has(kind),
      show: showJob,
    },
    opened.commands,
  );
  handle(life);
  const cancellation: Cancellation = {};
  CancellationScope.current().cancelRequested.catch((error: unknown) => {
    cancellation.error = error;
    cancellation.onRequest?.();
    life.feed({ kind: "cancel" });
  });
  return CancellationScope.nonCancellable(async () => {
    const job = await untilOver(life);
    const { outcome, followers } =
      job.stage.kind === "array"
        ? await runArray(job, job.stage, cancellation)
        : { outcome: outcomeOf(job), followers: () => life.state().followers };
    await tellFollowersEnd(job.jobId, outcome, followers);
    return resultOf(outcome, cancellation);
  });
}

/** The error that a cancellation brought, which ends the workflow as cancelled. */
interface Cancellation {
  error?: unknown;
  onRequest?: () => void;
}

const showJob = (of: Job): void => {
  // An array shows its tasks.
  if (of.stage.kind !== "array") setCurrentDetails(jobSummary(jobView(of)));
};

function handle({ state, feed }: Drive<Job, JobEvent>): void {
  setHandler(jobViewQuery, () => jobView(state()));
  onSignal(grantSignal, (offer) => feed({ kind: "grant", offer }));
  onSignal(grantsSignal, (offers) => feed({ kind: "grants", offers }));
  onSignal(fencedSignal, (loss) => feed({ kind: "fenced", loss }));
  onSignal(preemptSignal, (order) => feed({ kind: "preempt", order }));
  onSignal(callInSignal, (call) => feed({ kind: "call-in", call }));
  onSignal(assertSignal, (question) => feed({ kind: "assert", question }));
  onFollow(feed);
  onSignal(predecessorSignal, (note) => feed({ kind: "predecessor", note }));
  onSignal(killSignal, () => feed({ kind: "kill" }));
  onSignal(pendingSignal, (note) => feed({ kind: "pending", note }));
  onUnknownSignal(() => feed({ kind: "junk" }));
  acceptWords();
  acceptOrders({ state, feed });
}

/** Commands are carried out to their end, even once the workflow is cancelled. */
function carrier(
  jobId: JobId,
  file: unknown,
  hearTaskOrders: () => void,
): (command: JobCommand) => Promise<JobEvent | undefined> {
  const carryOut = carrierOf(jobId, file, hearTaskOrders);
  return (command) => CancellationScope.nonCancellable(async () => carryOut(command));
}

function carrierOf(
  jobId: JobId,
  file: unknown,
  hearTaskOrders: () => void,
): (command: JobCommand) => Promise<JobEvent | undefined> | undefined {
  const gang = gangCarrier();
  const extras = extrasCarrier();
  return (command) => {
    switch (command.kind) {
      case "admit":
        return admit(file, { ...command.entry, ...cameAs(flawOfInput()) }).then((admission) => {
          const rules = admission.kind === "admitted" ? admission.rules : 0;
          const areOrdersSigned = rules >= SIGNED_ORDER_JOB_RULES;
          if (!areOrdersSigned) believeAll();
          else if (rules < KEPT_WORDS_JOB_RULES) believeRoles();
          if (rules >= SIGNED_JOB_RULES) askForProof({ ofOrders: areOrdersSigned });
          return { kind: "admission", admission };
        });
      case "tell": {
        const { fleetWorkflowId: at, entry, exit, id } = command;
        const told = exit === undefined ? tellFleet(at, entry) : tellFleet(at, entry, exit);
        return told.then((result) => ({ kind: "told", id, result }));
      }
      case "leave-lobby":
        return leaveLobby(command.exit).then(() => ({
          kind: "told",
          id: command.id,
          result: { kind: "delivered" },
        }));
      case "tell-followers":
        return tellStart(jobId, command.followers);
      case "refuse-followers":
        return refuseFollowers();
      case "follow-jobs": {
        const { id, jobs, follower } = command;
        const looked = follower === undefined ? followJobs(jobs) : followJobs(jobs, follower);
        return looked.then((news) => ({ kind: "followed", id, news }));
      }
      case "hear-task-orders":
        hearTaskOrders();
        return undefined;
      case "waits":
        upsertMemo({ [WAITS_MEMO]: command.reason });
        return undefined;
      case "has-lease":
        return hasLease(command.fleetWorkflowId, command.lease).then((isThere) => ({
          kind: "lease",
          id: command.id,
          isThere,
        }));
      case "until-forgotten":
        return untilForgotten(command.fleetWorkflowId, command.jobId).then(
          () => ({ kind: "forgotten", id: command.id }),
          // A failure that no retry can mend leaves the job where it is: waiting, and to be cancelled.
          () => undefined,
        );
      case "make-extras":
        return extras.make(command);
      case "cancel-extras":
        extras.cancel();
        return undefined;
      case "polish-plan":
        return polish(command);
      case "mark":
        mark(command.mark);
        return undefined;
      case "memo":
        upsertMemo({ [CELL_MEMO]: command.move });
        return undefined;
      case "proofs":
        upsertMemo({ [AMENDED_MEMO]: command.proofs });
        return undefined;
      default:
        return gang(command);
    }
  };
}

const cameAs = (flaw: SealFlaw | undefined) => (flaw === undefined ? {} : { flaw });

/** A bug of ours must not keep GPUs: they are given back, to be confirmed free by their hosts. */
async function untilOver({ state, until }: Drive<Job, JobEvent>): Promise<Job> {
  try {
    return await until(({ stage }) => stage.kind === "over" || stage.kind === "array");
  } catch (error) {
    const { grant, cells, jobId, runId, seq } = state();
    if (grant !== undefined) {
      const unconfirmedHosts = grant.lease.gpus.map(({ host }) => host);
      const fleet = fleetWorkflowId(presentFleet(cells));
      await tellFleet(fleet, { kind: "end", jobId, runId, seq, unconfirmedHosts });
    }
    throw error;
  }
}

function outcomeOf({ stage }: Job): JobOutcome {
  if (stage.kind !== "over") throw new Error(`the job is not over but ${stage.kind}`);
  return stage.outcome;
}

/** The result, or the failure or cancellation that ends the workflow. */
function resultOf(outcome: JobOutcome, cancellation: Cancellation): JobResult {
  switch (outcome.kind) {
    case "completed":
      return outcome.result;
    case "cancelled":
      throw cancellation.error;
    case "failed":
      throw failure(outcome.code, outcome.message, outcome.details);
  }
}

/** Hands the job over to the logic of arrays, which sets handlers of its own. */
function runArray(
  job: Job,
  { rules, notified }: Extract<Stage, { readonly kind: "array" }>,
  cancellation: Cancellation,
): Promise<EndedArray> {
  const { spec, home, jobId, runId, isHeld, pause, lane, reason, isKilled, eligibleAtMs } = job;
  const { submittedAtMs, marks, followers, amended, junkSignals, predecessors: after } = job;
  const { earlyGrants, call, tasks } = job;
  // Runs of former releases lost what came before their array began, and replay so.
  const isHeard = (earlyGrants.length > 0 || call !== undefined) && patched("early-words");
  if (spec?.array === undefined) throw new Error(`job ${jobId} is no array`);
  const entry: ArrayEntry = {
    rules,
    jobId,
    runId,
    fleet: home,
    spec,
    rule: spec.array,
    submittedAtMs,
    entered: notified,
    ...(tasks !== undefined && { tasks }),
    isHeld,
    ...(pause !== undefined && { pause }),
    isAsked: lane.isAsked,
    ...(lane.askedRun !== undefined && { askedRun: lane.askedRun }),
    ...(reason !== undefined && { reason }),
    ...(isKilled === true && { isKilled }),
    marks,
    followers,
    amended,
    junkSignals,
    ...(isHeard && { earlyGrants, ...(call !== undefined && { call }) }),
    ...(after.length > 0 && { after }),
    ...(eligibleAtMs !== undefined && { eligibleAtMs }),
  };
  return runJobArray(entry, (cancel) => (cancellation.onRequest = cancel));
}
