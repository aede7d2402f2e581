/**
 * @file A job that waits for other jobs, before it has asked any fleet for anything: what it hears of them, and when it goes on or ends.
 *
 * It registers with each of them and hears of its start and its end. Nobody can tell of a job that was terminated from outside, so
 * the job also looks at them, without a word, after a quarter of the time that it has waited, at least 20 s and at most an hour: some forty looks in the first day.
 * An end is final: later news change nothing. The job gathers no age while it waits so, as in Slurm.
 */

import { dependencyText } from "../../domain/job/dependency.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import { MAX_HOLDERS, type PendingReason } from "../../domain/lease/pending.ts";
import { byCodeUnit, type JobId } from "../../domain/values/ids.ts";
import {
  PREDECESSOR_STATES,
  type PredecessorNews,
  type PredecessorState,
  type PredecessorView,
} from "../../protocol/predecessors.ts";
import { isFields } from "../../lib/fields.ts";
import type { Step } from "../machine.ts";
import { andThen, quiet } from "../steps.ts";
import { isWithoutTasks } from "./early-tasks.ts";
import { ask } from "./fleet-conversation.ts";
import type { Job, JobCommand, Stage } from "./job-state.ts";
import { mark } from "./marks.ts";
import { endWaiting, enter, markAnew, withoutPending } from "./waiting.ts";

type JobStep = Step<Job, JobCommand>;
type Following = Extract<Stage, { readonly kind: "following" }>;

const LOOK_SHARE = 0.25;
const LOOK_MIN_MS = 20_000;
const LOOK_MAX_MS = 3_600_000;

/** The job's dependencies as it enters; a job that waits for itself waits in vain. */
export const openPredecessors = ({ after = [] }: JobSpec, self: JobId): Job["predecessors"] =>
  after.map((each) => ({ ...each, verdict: each.job === self ? "failed" : "open" }));

/** `news`: of signals, which may be junk, or of the job's own look. */
export function takeNews(job: Job, news: readonly unknown[]): JobStep {
  const known = news.filter(isNews);
  const heard = job.predecessors.map((each) =>
    known.reduce((before, one) => (one.job === before.job ? heardOf(before, one) : before), each),
  );
  const isSame = heard.every((each, at) => each === job.predecessors[at]);
  if (isSame || job.stage.kind !== "following") return quiet(job);
  return tellWhy({ ...job, predecessors: heard });
}

export function looked(
  job: Job,
  id: number,
  news: readonly PredecessorNews[],
): Step<Job, JobCommand> {
  const { stage } = job;
  if (stage.kind !== "following" || stage.askId !== id) return quiet(job);
  const { askId: _answered, ...rest } = stage;
  return takeNews(enter(job, rest), news);
}

export function following(job: Job, stage: Following, nowMs: number): JobStep {
  if (job.reason !== undefined) return quiet(endWaiting(job));
  const { predecessors, spec, isHeld } = job;
  if (isWithoutTasks(job)) return goOn(job, stage, nowMs);
  const lost = predecessors.find(({ verdict }) => verdict === "failed");
  if (lost !== undefined && spec?.mayFollowFailure !== true) return endWithout(job, lost);
  if (predecessors.every(({ verdict }) => verdict !== "open")) return goOn(job, stage, nowMs);
  const shown = isHeld ? "held" : "pending";
  if (job.shown !== shown) return markAnew({ ...job, shown }, shown);
  return stage.askId === undefined && stage.lookAtMs <= nowMs
    ? look(job, stage, nowMs)
    : quiet(job);
}

/** All have come, or nobody wants its tasks any more: the job is a new one for its fleet from now on. */
function goOn(job: Job, { rules }: Following, nowMs: number): JobStep {
  const eligible = { ...withoutPending(job), eligibleAtMs: nowMs, requestedAtMs: nowMs };
  const isArray = job.spec?.array !== undefined;
  const stage: Stage = isArray
    ? { kind: "array", notified: { kind: "silent" }, rules }
    : { kind: "unasked" };
  const waits = { kind: "waits", reason: null } as const;
  const entered: JobStep = { state: enter(eligible, stage), commands: [waits] };
  // A release that comes with the last news has not been shown yet, and who looks for waiting jobs must find it.
  const isShownHeld = job.shown === "held" && !job.isHeld;
  return isShownHeld
    ? andThen(entered, (state) => markAnew({ ...state, shown: "pending" }, "pending"))
    : entered;
}

/** No fleet has heard of it, so none needs to hear of its end. */
function endWithout(job: Job, lost: PredecessorView): JobStep {
  const { state, commands } = mark({ ...job, shown: "failed" }, "failed");
  const message = `job ${job.jobId} was to wait until ${dependencyText(lost)}, which cannot be any more: ${endText(lost, job.jobId)}. Submit it again with another dependency, or with onFailedDependency: release.`;
  const outcome = {
    kind: "failed",
    code: "DEPENDENCY_FAILED",
    message,
    details: { attempts: 0 },
  } as const;
  return { state: enter(state, { kind: "over", outcome }), commands };
}

function look(job: Job, stage: Following, nowMs: number): JobStep {
  const waitedMs = nowMs - job.submittedAtMs;
  const pauseMs = Math.min(LOOK_MAX_MS, Math.max(LOOK_MIN_MS, LOOK_SHARE * waitedMs));
  const jobs = job.predecessors.flatMap(({ job: id, verdict }) => (verdict === "open" ? [id] : []));
  return ask(job, (askId) => ({
    stage: { ...stage, askId, lookAtMs: nowMs + pauseMs, isKnown: true },
    command: {
      kind: "follow-jobs",
      id: askId,
      jobs: [...new Set(jobs)],
      ...(!stage.isKnown && { follower: job.jobId }),
    },
  }));
}

/** For its view, and for lists. */
function tellWhy(job: Job): JobStep {
  const reason = waitingReason(job.predecessors);
  if (reason.message === job.pending?.message) return quiet(job);
  return { state: { ...job, pending: reason }, commands: [{ kind: "waits", reason }] };
}

export function waitingReason(predecessors: readonly PredecessorView[]): PendingReason {
  const open = predecessors.filter(({ verdict }) => verdict === "open");
  const named = open
    .slice(0, MAX_HOLDERS)
    .map((each) => `${dependencyText(each)} (${each.state ?? "not heard of yet"})`);
  const more = open.length > named.length ? `, and ${open.length - named.length} more` : "";
  const jobs = [...new Set(open.map(({ job }) => job))].sort(byCodeUnit);
  return {
    code: "WaitingForJobs",
    message: `waits until ${named.join(", ")}${more}`,
    numbers: { open: open.length, met: predecessors.length - open.length },
    holders: jobs.slice(0, MAX_HOLDERS),
    wakeOn: ["predecessor-changed"],
  };
}

function heardOf(before: PredecessorView, { state }: PredecessorNews): PredecessorView {
  if (before.state === state || isEnd(before.state)) return before;
  const verdict = before.verdict === "open" ? verdictOf(before, state) : before.verdict;
  return { ...before, state, verdict };
}

function verdictOf({ on }: PredecessorView, state: PredecessorState): PredecessorView["verdict"] {
  switch (state) {
    case "pending":
    case "held":
      return "open";
    case "running":
      return on === "start" ? "met" : "open";
    case "completed":
      return on === "failure" ? "failed" : "met";
    case "failed":
    case "cancelled":
    case "terminated":
      return on === "success" ? "failed" : "met";
    case "gone":
      return on === "success" || on === "failure" ? "failed" : "met";
  }
}

const isEnd = (state: PredecessorState | undefined): boolean =>
  state !== undefined && state !== "pending" && state !== "held" && state !== "running";

function endText({ job, state }: PredecessorView, self: JobId): string {
  if (job === self) return "it is the job itself";
  return state === "gone" ? `the server knows no job ${job}` : `${job} is ${state ?? "gone"}`;
}

const isNews = (value: unknown): value is PredecessorNews =>
  isFields(value) &&
  typeof value["job"] === "string" &&
  PREDECESSOR_STATES.some((state) => state === value["state"]);
