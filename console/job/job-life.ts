/**
 * @file A job's life as its own history tells it: moments in the order of time, and one row for each of its leases. Folds facts, in any number,
 * into a page of bounded size.
 *
 * A run reports when it ends, so the moment at which its processes started is known then, and takes its place among the others by its time.
 * Of many moments the first and the last are kept; of many leases the last.
 */

import { runBandwidthText } from "../../domain/lease/bandwidth-note.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";
import { lostGpuSeconds } from "../../domain/lease/preempted.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import type { AttemptRow, JobEnd, JobMoment, JobPage, MomentKind } from "../../page/job-wire.ts";
import type { RunOrder, RunReport, StopOrder, StopReport } from "../../protocol/agent-contract.ts";
import type { LaunchExtrasReport } from "../../protocol/launch-extras-contract.ts";
import type { Grant, PreemptOrder, WaitNote } from "../../protocol/job.ts";

export type JobFact =
  | {
      readonly kind: "submitted";
      readonly run: string;
      readonly summary: string;
      readonly user?: string;
    }
  | { readonly kind: "admitted"; readonly spec: JobSpec }
  | { readonly kind: "waits"; readonly note: WaitNote }
  | { readonly kind: "granted"; readonly grants: readonly Grant[] }
  | { readonly kind: "extras"; readonly report: LaunchExtrasReport }
  | { readonly kind: "launched"; readonly order: RunOrder }
  | { readonly kind: "ran"; readonly order: RunOrder; readonly report: RunReport }
  /** The host of the order reports no end of its run: it died, or its agent did. */
  | { readonly kind: "unreported"; readonly order: Pick<RunOrder, "leaseId" | "host"> }
  | { readonly kind: "preempted"; readonly order: PreemptOrder }
  | { readonly kind: "stopping"; readonly order: StopOrder }
  | { readonly kind: "stopped"; readonly order: StopOrder; readonly report: StopReport }
  /** Anything else worth a line. */
  | { readonly kind: "said"; readonly as: MomentKind; readonly text: string }
  | { readonly kind: "ended"; readonly how: JobEnd["how"]; readonly why: string };

export interface JobLife {
  readonly fold: (fact: JobFact, atMs: number) => void;
  readonly page: () => JobPage;
}

const FIRST_MOMENTS = 100;
const LAST_MOMENTS = 300;
const MOST_ATTEMPTS = 50;
const MOST_TEXT = 500;

interface Attempt {
  readonly grant: Grant;
  /** As many as the lease has, at most. */
  readonly hosts: Map<string, HostEnd>;
  /** Hosts that report no end of their run. */
  readonly silent: Set<string>;
  isLaunched: boolean;
  isStopping: boolean;
  /** It runs batches of tasks, whose starts and ends are moments of their own. */
  isBatched: boolean;
  /** Of a batched one: of tasks that started and did not complete, over all batches. */
  lostTaskGpuSeconds: number;
  startedAtMs: number | undefined;
  extras: AttemptRow["extras"];
  checkpoint: { readonly path: string; readonly atMs: number } | undefined;
}

/** What is kept of a host's report. */
interface HostEnd extends Pick<RunReport, "endedAtMs" | "end" | "measuredGbs"> {
  readonly cause?: { readonly atMs: number; readonly text: string };
}

/** `mostAttempts`: of more leases the last are kept. */
export function createJobLife(
  job: string,
  { mostAttempts = MOST_ATTEMPTS }: { readonly mostAttempts?: number } = {},
): JobLife {
  const attempts = new Map<string, Attempt>();
  const first: JobMoment[] = [];
  let last: JobMoment[] = [];
  let omitted = 0;
  let about: JobPage["about"];
  let ended: JobEnd | undefined;
  let waits = "";
  let user: string | undefined;
  let run: string | undefined;
  let newest: Attempt | undefined;

  function say(kind: MomentKind, atMs: number, text: string): void {
    const moment = { atMs, kind, text: shortened(text) };
    if (first.length < FIRST_MOMENTS) return void first.push(moment);
    last.push(moment);
    if (last.length < 2 * LAST_MOMENTS) return;
    omitted += last.length - LAST_MOMENTS;
    last = last.slice(-LAST_MOMENTS);
  }

  function fold(fact: JobFact, atMs: number): void {
    switch (fact.kind) {
      case "submitted":
        user ??= fact.user;
        run = fact.run;
        if (first.length > 0) return;
        return say("submitted", atMs, fact.summary);
      case "admitted":
        about = aboutOf(fact.spec);
        return;
      case "waits": {
        const { code, message } = fact.note.reason;
        if (code !== waits) say("waiting", atMs, `${code}: ${message}`);
        waits = code;
        return;
      }
      case "granted":
        for (const grant of fact.grants) granted(grant);
        return;
      case "extras":
        if (newest !== undefined)
          newest.extras = fact.report.notes.map(({ part, message }) => ({ part, text: message }));
        return;
      case "launched":
        return launched(fact.order, atMs);
      case "ran":
        return ran(fact.order, fact.report);
      case "unreported": {
        const { leaseId, host } = fact.order;
        attempts.get(leaseId)?.silent.add(host);
        return say("stopping", atMs, `${leaseId}: ${host} reports no end of its run`);
      }
      case "preempted": {
        const { lease, forJob, reason, keep } = fact.order;
        const rest = keep === undefined ? "" : `; it may go on with ${gpuCountOf(keep)} GPUs`;
        return say("preempted", atMs, `${lease}: room for ${forJob}, ${reason}${rest}`);
      }
      case "stopping":
        return stopping(fact.order, atMs);
      case "stopped":
        return stopped(fact.order, fact.report);
      case "said":
        return say(fact.as, atMs, fact.text);
      case "ended":
        ended = { atMs, how: fact.how, why: shortened(fact.why) };
        return say("ended", atMs, fact.why === "" ? fact.how : `${fact.how}: ${fact.why}`);
    }
  }

  /** Signals may come from anybody: a grant of which no row can be made fails here, once, and not with every page. */
  function granted(grant: Grant): void {
    if (!isGrant(grant)) throw new TypeError("the grant has another shape");
    const { lease, reason } = grant;
    if (attempts.has(lease.id)) return;
    const attempt = attemptOf(grant);
    attemptRow(attempt, false);
    newest = attempt;
    waits = "";
    attempts.set(lease.id, newest);
    if (attempts.size > mostAttempts) attempts.delete(attempts.keys().next().value ?? "");
    const count = gpuCountOf(lease.gpus);
    const wanted = lease.slots === undefined ? about?.gpus : undefined;
    const size = wanted !== undefined && wanted > count ? `${count} of ${wanted}` : String(count);
    const where =
      lease.gpus.length === 1 ? (lease.gpus[0]?.host ?? "") : `${lease.gpus.length} hosts`;
    say("granted", lease.grantedAtMs, `${lease.id}: ${size} GPUs on ${where}. ${reason}`);
  }

  function launched({ leaseId, gang, host }: RunOrder, atMs: number): void {
    const attempt = attempts.get(leaseId);
    attempt?.silent.delete(host);
    if (attempt === undefined || attempt.isLaunched) return;
    attempt.isLaunched = true;
    const hosts = gang.length === 1 ? (gang[0]?.host ?? "") : `${gang.length} hosts`;
    say("starting", atMs, `${leaseId}: ${hosts} prepare the gang`);
  }

  function ran(
    { leaseId, taskBatch }: Pick<RunOrder, "leaseId" | "taskBatch">,
    report: RunReport,
  ): void {
    const attempt = attempts.get(leaseId);
    const { host, startedAtMs, endedAtMs, end } = report;
    if (attempt === undefined) return;
    if (report.checkpoint) saved(attempt, report.checkpoint);
    const isKnown = attempt.hosts.has(host);
    if (!isKnown && attempt.hosts.size >= attempt.grant.lease.gpus.length) return;
    attempt.hosts.set(host, hostEnd(report));
    attempt.silent.delete(host);
    attempt.startedAtMs = Math.min(attempt.startedAtMs ?? Infinity, startedAtMs ?? Infinity);
    if (taskBatch === undefined) return;
    const batch = `${leaseId}: batch ${taskBatch.seq}, ${taskBatch.tasks.length} tasks on ${host}`;
    if (startedAtMs !== undefined) say("running", startedAtMs, batch);
    say("stopped", endedAtMs, `${batch}: ${end}`);
    attempt.isBatched = true;
    attempt.lostTaskGpuSeconds += lostOfTasks(report, taskBatch.gpusPerTask);
  }

  function stopping({ leaseId, reason }: StopOrder, atMs: number): void {
    const attempt = attempts.get(leaseId);
    if (attempt?.isStopping === true) return;
    if (attempt !== undefined) attempt.isStopping = true;
    say("stopping", atMs, `${leaseId}: ${reason}`);
  }

  function stopped({ leaseId }: StopOrder, { checkpoint, report }: StopReport): void {
    const attempt = attempts.get(leaseId);
    if (attempt === undefined) return;
    if (checkpoint) saved(attempt, checkpoint);
    if (report !== undefined && !attempt.hosts.has(report.host)) ran({ leaseId }, report);
  }

  function saved(attempt: Attempt, mark: { readonly path: string; readonly atMs: number }): void {
    if (mark.atMs <= (attempt.checkpoint?.atMs ?? attempt.grant.lease.grantedAtMs)) return;
    attempt.checkpoint = mark;
    const name = mark.path.split("/").at(-1) ?? mark.path;
    say("checkpoint", mark.atMs, `${attempt.grant.lease.id}: ${name} is complete`);
  }

  function page(): JobPage {
    const tail = last.slice(-LAST_MOMENTS);
    const rows = [...attempts.values()].map((attempt) => attemptRow(attempt, ended !== undefined));
    const runs = rows.filter(({ lease }) => attempts.get(lease)?.isBatched !== true);
    const moments = [...first, ...tail, ...runs.flatMap(runMoments)];
    return {
      job,
      ...(about !== undefined && { about }),
      ...(user !== undefined && { user }),
      ...(run !== undefined && { run }),
      moments: moments.sort((one, other) => one.atMs - other.atMs),
      omitted: omitted + last.length - tail.length,
      attempts: rows,
      ...(ended !== undefined && { ended }),
    };
  }

  return { fold, page };
}

const aboutOf = ({ name, tenant, gang, array, ...spec }: JobSpec): JobPage["about"] => {
  return {
    name,
    class: spec.class,
    tenant,
    gpus: gang.gpus,
    ...(array !== undefined && { tasks: array.count }),
  };
};

const attemptOf = (grant: Grant): Attempt => ({
  grant,
  hosts: new Map(),
  silent: new Set(),
  isLaunched: false,
  isStopping: false,
  isBatched: false,
  lostTaskGpuSeconds: 0,
  startedAtMs: undefined,
  extras: [],
  checkpoint: undefined,
});

/** The parts of a grant that a page or a record is made of. */
function isGrant({ lease, reason }: Grant): boolean {
  const { id, gpus, grantedAtMs } = lease;
  const isText = [id, reason].every((text) => typeof text === "string");
  return (
    isText &&
    Number.isFinite(grantedAtMs) &&
    Array.isArray(gpus) &&
    gpus.every(({ host, mask }) => typeof host === "string" && Number.isInteger(mask))
  );
}

const hostEnd = ({ host, endedAtMs, end, cause, measuredGbs }: RunReport): HostEnd => ({
  ...{ endedAtMs, end },
  ...(measuredGbs !== undefined && { measuredGbs }),
  ...(cause !== undefined && {
    cause: { atMs: cause.atMs, text: shortened(`${cause.code} on ${host}: ${cause.message}`) },
  }),
});

/** A task that did not complete is run again from its beginning. */
const lostOfTasks = ({ tasks = [], endedAtMs }: RunReport, gpusPerTask: number): number =>
  tasks
    .filter(({ end }) => end !== "completed")
    .reduce(
      (sum, task) =>
        sum +
        lostGpuSeconds({
          gpus: gpusPerTask,
          ...(task.startedAtMs !== undefined && { startedAtMs: task.startedAtMs }),
          endedAtMs: task.endedAtMs ?? endedAtMs,
        }),
      0,
    );

/** `isEnded`: the job has, so nothing more will be reported. */
function attemptRow(
  { grant, hosts, silent, extras, checkpoint, ...attempt }: Attempt,
  isEnded: boolean,
): AttemptRow {
  const { lease, reason, predictedGBs, bandwidth } = grant;
  const reports = [...hosts.values()];
  const startedAtMs = attempt.startedAtMs === Infinity ? undefined : attempt.startedAtMs;
  // A gang has ended when all of its hosts say so; of a host that will not say, the last of the others' reports stands for its end.
  const isOver = isEnded || reports.length + silent.size >= lease.gpus.length;
  const isReported = isOver && reports.length > 0;
  const endedAtMs = isReported ? Math.max(...reports.map((report) => report.endedAtMs)) : undefined;
  const measuredGbs = reports.find((report) => report.measuredGbs !== undefined)?.measuredGbs;
  const predictedGbs = bandwidth?.predictedGbs ?? predictedGBs;
  const text = runBandwidthText({
    ...(predictedGBs !== undefined && { predictedGBs }),
    ...(bandwidth !== undefined && { bandwidth }),
    ...(measuredGbs !== undefined && { measuredGbs }),
  });
  const end = isReported ? endOf(reports, lease.gpus.length) : undefined;
  const cause = firstCause(reports);
  return {
    lease: lease.id,
    grantedAtMs: lease.grantedAtMs,
    gpus: lease.gpus.map(({ host, mask }) => [host, mask] as const),
    reason: shortened(reason),
    extras,
    ...(startedAtMs !== undefined && { startedAtMs }),
    ...(endedAtMs !== undefined && { endedAtMs }),
    ...(predictedGbs !== undefined && { predictedGbs }),
    ...(measuredGbs !== undefined && { measuredGbs }),
    ...(text !== undefined && { bandwidth: text }),
    ...(end !== undefined && { end }),
    ...(cause !== undefined && { cause }),
    ...(checkpoint !== undefined && { checkpoint: checkpoint.path }),
    ...(isOver && !isReported && attempt.isLaunched && { isUnreported: true }),
    ...(endedAtMs !== undefined &&
      (attempt.isBatched || end !== "completed") && {
        lostGpuSeconds: attempt.isBatched
          ? attempt.lostTaskGpuSeconds
          : lostGpuSeconds({
              gpus: gpuCountOf(lease.gpus),
              ...(startedAtMs !== undefined && { startedAtMs }),
              endedAtMs,
              ...(checkpoint !== undefined && { checkpoint }),
            }),
      }),
  };
}

/** Start and end of a run, once its hosts have reported. */
function runMoments(row: AttemptRow): readonly JobMoment[] {
  const { lease, startedAtMs, endedAtMs, end, cause, lostGpuSeconds: lost = 0 } = row;
  const moments: JobMoment[] = [];
  if (startedAtMs !== undefined)
    moments.push({ atMs: startedAtMs, kind: "running", text: `${lease}: its processes start` });
  if (endedAtMs === undefined || end === undefined) return moments;
  const why = end === "failed" && cause !== undefined ? `failed, ${cause}` : end;
  const loss = lost > 0 ? `; ${lost.toFixed(1)} GPU-seconds of work lost` : "";
  moments.push({ atMs: endedAtMs, kind: "stopped", text: `${lease}: ${why}${loss}` });
  return moments;
}

function endOf(reports: readonly HostEnd[], hosts: number): RunReport["end"] {
  const ends = new Set(reports.map(({ end }) => end));
  if (ends.has("failed")) return "failed";
  if (ends.has("stopped")) return "stopped";
  return reports.length < hosts ? "failed" : "completed";
}

/** Over a gang the earliest cause is the reported one. */
const firstCause = (reports: readonly HostEnd[]): string | undefined =>
  reports.flatMap(({ cause }) => cause ?? []).sort((one, other) => one.atMs - other.atMs)[0]?.text;

const shortened = (text: string): string =>
  text.length <= MOST_TEXT ? text : `${text.slice(0, MOST_TEXT - 1)}…`;
