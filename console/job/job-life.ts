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
const MOST_HOSTS = 256;
const MOST_TEXT = 500;

interface Attempt {
  readonly grant: Grant;
  readonly hosts: Map<string, RunReport>;
  isLaunched: boolean;
  isStopping: boolean;
  /** It runs batches of tasks, whose starts and ends are moments of their own. */
  isBatched: boolean;
  startedAtMs: number | undefined;
  extras: AttemptRow["extras"];
  checkpoint: { readonly path: string; readonly atMs: number } | undefined;
}

export function createJobLife(job: string): JobLife {
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

  function granted(grant: Grant): void {
    const { lease, reason } = grant;
    if (attempts.has(lease.id)) return;
    waits = "";
    newest = {
      grant,
      hosts: new Map(),
      isLaunched: false,
      isStopping: false,
      isBatched: false,
      startedAtMs: undefined,
      extras: [],
      checkpoint: undefined,
    };
    attempts.set(lease.id, newest);
    if (attempts.size > MOST_ATTEMPTS) attempts.delete(attempts.keys().next().value ?? "");
    const count = gpuCountOf(lease.gpus);
    const wanted = lease.slots === undefined ? about?.gpus : undefined;
    const size = wanted !== undefined && wanted > count ? `${count} of ${wanted}` : String(count);
    const where =
      lease.gpus.length === 1 ? (lease.gpus[0]?.host ?? "") : `${lease.gpus.length} hosts`;
    say("granted", lease.grantedAtMs, `${lease.id}: ${size} GPUs on ${where}. ${reason}`);
  }

  function launched({ leaseId, gang }: RunOrder, atMs: number): void {
    const attempt = attempts.get(leaseId);
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
    if (attempt.hosts.size >= MOST_HOSTS && !attempt.hosts.has(host)) return;
    attempt.hosts.set(host, report);
    attempt.startedAtMs = Math.min(attempt.startedAtMs ?? Infinity, startedAtMs ?? Infinity);
    if (taskBatch === undefined) return;
    const batch = `${leaseId}: batch ${taskBatch.seq}, ${taskBatch.tasks.length} tasks on ${host}`;
    if (startedAtMs !== undefined) say("running", startedAtMs, batch);
    say("stopped", endedAtMs, `${batch}: ${end}`);
    attempt.isBatched = true;
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
    if (report !== undefined && !attempt.hosts.has(report.host) && attempt.hosts.size < MOST_HOSTS)
      ran({ leaseId }, report);
  }

  function saved(attempt: Attempt, mark: { readonly path: string; readonly atMs: number }): void {
    if (mark.atMs <= (attempt.checkpoint?.atMs ?? attempt.grant.lease.grantedAtMs)) return;
    attempt.checkpoint = mark;
    const name = mark.path.split("/").at(-1) ?? mark.path;
    say("checkpoint", mark.atMs, `${attempt.grant.lease.id}: ${name} is complete`);
  }

  function page(): JobPage {
    const tail = last.slice(-LAST_MOMENTS);
    const rows = [...attempts.values()].map(attemptRow);
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

function attemptRow({ grant, hosts, extras, checkpoint, ...attempt }: Attempt): AttemptRow {
  const { lease, reason, predictedGBs, bandwidth } = grant;
  const reports = [...hosts.values()];
  const startedAtMs = attempt.startedAtMs === Infinity ? undefined : attempt.startedAtMs;
  // A gang has ended when all of its hosts say so.
  const isOver = reports.length >= lease.gpus.length;
  const endedAtMs = isOver ? Math.max(...reports.map((report) => report.endedAtMs)) : undefined;
  const measuredGbs = reports.find((report) => report.measuredGbs !== undefined)?.measuredGbs;
  const predictedGbs = bandwidth?.predictedGbs ?? predictedGBs;
  const text = runBandwidthText({
    ...(predictedGBs !== undefined && { predictedGBs }),
    ...(bandwidth !== undefined && { bandwidth }),
    ...(measuredGbs !== undefined && { measuredGbs }),
  });
  const end = isOver ? endOf(reports) : undefined;
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
    ...(endedAtMs !== undefined &&
      end !== "completed" && {
        lostGpuSeconds: lostGpuSeconds({
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

const endOf = (reports: readonly RunReport[]): RunReport["end"] =>
  reports.find(({ end }) => end === "failed")?.end ??
  reports.find(({ end }) => end === "stopped")?.end ??
  "completed";

/** Over a gang the earliest cause is the reported one. */
function firstCause(reports: readonly RunReport[]): string | undefined {
  const causes = reports.flatMap(({ host, cause }) => (cause === undefined ? [] : { host, cause }));
  const [first] = causes.sort((one, other) => one.cause.atMs - other.cause.atMs);
  return first && shortened(`${first.cause.code} on ${first.host}: ${first.cause.message}`);
}

const shortened = (text: string): string =>
  text.length <= MOST_TEXT ? text : `${text.slice(0, MOST_TEXT - 1)}…`;
