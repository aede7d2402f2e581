/**
 * @file How the part of one host ended, and how the ends of all hosts decide the end of their gang.
 *
 * A gang has completed when every host reports that its part completed. The gang's cause is the earliest cause of any host; a stop that
 * Orbweaver ordered itself does not count as a cause. A host that could not confirm that nothing runs there is named, unless it
 * answered the order to stop or was fenced.
 */

import type {
  CheckpointMark,
  PackedEnds,
  RunCause,
  RunReport,
  StopReport,
  TaskEnd,
} from "../../protocol/agent-contract.ts";
import type { HostPlugins } from "../../domain/bandwidth/collective-evidence.ts";
import { byCodeUnit, type HostId } from "../../domain/values/ids.ts";

export interface GangEnd {
  readonly end: "completed" | "failed" | "stopped";
  readonly cause?: GangCause;
  readonly unconfirmedHosts: readonly HostId[];
  readonly startedAtMs?: number;
  readonly endedAtMs: number;
  readonly checkpoint?: CheckpointMark;
  /** Bandwidth of the gang's collectives, from the first of its hosts whose processes reported it. */
  readonly measuredGbs?: number;
  /** Typical time of its training steps, likewise. */
  readonly stepMs?: number;
  /** What NCCL had loaded of the collectives plugin, on hosts that lack some of it. */
  readonly ncclPlugins?: readonly HostPlugins[];
  /** The most memory that any host's part used at once, where that is known. */
  readonly peakMemoryBytes?: number;
  /** The ends of a batch's tasks, as its hosts reported them. */
  readonly tasks?: readonly TaskEnd[];
  /** The same of a batch of several tasks, which is on one host. */
  readonly packedTasks?: PackedEnds;
}

export type GangCause = RunCause & { readonly host: HostId };

export type HostEnd =
  | { readonly kind: "reported"; readonly report: RunReport }
  /** It never started and never will. */
  | { readonly kind: "refused"; readonly cause: RunCause }
  | { readonly kind: "unconfirmed"; readonly cause: RunCause }
  /** The fleet has given the host up, so there is nothing left to confirm. */
  | { readonly kind: "fenced"; readonly cause: RunCause };

/** The answer of a host to the order to stop; `fenced` where the fleet gave the host up first. */
export type HostStop = StopReport | "fenced";

/**
 * Whether the other hosts go on after this end. A task over several hosts is alone in its batch, and its failure on one host stops the
 * others; in a batch of many tasks each failure is that task's own.
 */
export function isGood(end: HostEnd): boolean {
  if (end.kind !== "reported" || end.report.end !== "completed") return false;
  const { tasks = [] } = end.report;
  return tasks.length !== 1 || tasks[0]?.end === "completed";
}

export interface GangFacts {
  /** In the order in which the hosts ended. */
  readonly ends: ReadonlyMap<HostId, HostEnd>;
  readonly stopped: ReadonlyMap<HostId, HostStop>;
  readonly grantedAtMs: number;
}

export function gangEnd({ ends, stopped, grantedAtMs }: GangFacts, nowMs: number): GangEnd {
  const reports = [...ends.values()].flatMap((end) =>
    end.kind === "reported" ? [end.report] : [],
  );
  // An agent that dies forgets when its run started; its successor still knows whether there was anything to stop.
  const stops = [...stopped.values()].flatMap((answer) => (answer === "fenced" ? [] : [answer]));
  const reported = reports.flatMap((report) => report.startedAtMs ?? []);
  const hadProcesses = stops.some((stop) => stop.hadProcesses);
  const started = reported.length === 0 && hadProcesses ? [grantedAtMs] : reported;
  const checkpoint = newest([...reports, ...stops].flatMap((answer) => answer.checkpoint ?? []));
  const cause = earliestCause(ends);
  const packed = reports.flatMap(({ packedTasks = [] }) => packedTasks);
  const peaks = reports.flatMap(({ peakMemoryBytes = [] }) => peakMemoryBytes);
  const inOrder = [...reports].sort((a, b) => byCodeUnit(a.host, b.host));
  const [measuredGbs] = inOrder.flatMap((report) => report.measuredGbs ?? []);
  const [stepMs] = inOrder.flatMap((report) => report.stepMs ?? []);
  const ncclPlugins = inOrder.flatMap(({ host, ncclPlugins: plugins = "both" }) =>
    plugins === "both" ? [] : [{ host, plugins }],
  );
  return {
    end: cause !== undefined ? "failed" : endOf(reports, ends),
    ...(cause !== undefined && { cause }),
    // Whether a fence still counts is for the ledger to say: the host may have come back and started its part before the word of the fence came.
    unconfirmedHosts: [...ends].flatMap(([host, end]) =>
      (end.kind === "unconfirmed" || end.kind === "fenced") && !isConfirmed(stopped.get(host))
        ? [host]
        : [],
    ),
    ...(started.length > 0 && { startedAtMs: Math.min(...started) }),
    endedAtMs: Math.max(nowMs, ...reports.map((report) => report.endedAtMs)),
    ...(checkpoint !== undefined && { checkpoint }),
    ...(measuredGbs !== undefined && { measuredGbs }),
    ...(stepMs !== undefined && { stepMs }),
    ...(ncclPlugins.length > 0 && { ncclPlugins }),
    ...(peaks.length > 0 && { peakMemoryBytes: Math.max(...peaks) }),
    ...(reports.some(({ tasks }) => tasks !== undefined) && {
      tasks: reports.flatMap(({ tasks = [] }) => tasks),
    }),
    ...(packed[0] !== undefined && { packedTasks: packed[0] }),
  };
}

const isConfirmed = (stop: HostStop | undefined): boolean =>
  stop !== undefined && stop !== "fenced";

/** The end of a gang that was called off before anything of it was started. */
export const calledOff = (nowMs: number): GangEnd => ({
  end: "stopped",
  unconfirmedHosts: [],
  endedAtMs: nowMs,
});

const newest = (marks: readonly CheckpointMark[]): CheckpointMark | undefined =>
  marks.reduce<CheckpointMark | undefined>(
    (best, mark) => (best === undefined || mark.atMs > best.atMs ? mark : best),
    undefined,
  );

function endOf(
  reports: readonly RunReport[],
  ends: ReadonlyMap<HostId, HostEnd>,
): "completed" | "stopped" {
  return reports.length === ends.size && reports.every((report) => report.end === "completed")
    ? "completed"
    : "stopped";
}

/** The first failure of any host; a stop that Orbweaver ordered itself is none. Ties go to the host that ended first. */
function earliestCause(ends: ReadonlyMap<HostId, HostEnd>): GangCause | undefined {
  let first: GangCause | undefined;
  for (const [host, end] of ends) {
    const cause = causeOf(end);
    if (cause === undefined || cause.code === "STOPPED") continue;
    if (first === undefined || cause.atMs < first.atMs) first = { ...cause, host };
  }
  return first;
}

function causeOf(end: HostEnd): RunCause | undefined {
  if (end.kind !== "reported") return end.cause;
  return end.report.end === "failed" ? end.report.cause : undefined;
}

export const stoppedBeforeStart = (host: HostId, nowMs: number): RunCause => ({
  code: "STOPPED",
  message: `stopped before it started on ${host}`,
  atMs: nowMs,
});

export const fencedOff = (host: HostId, nowMs: number): HostEnd => ({
  kind: "fenced",
  cause: {
    code: "HOST_LOST",
    message: `${host} was fenced: it had not answered for too long, or an operator gave it up`,
    atMs: nowMs,
  },
});

export const unconfirmed = (host: HostId, nowMs: number): HostEnd => ({
  kind: "unconfirmed",
  cause: {
    code: "STOPPED",
    message: `${host} has not confirmed that nothing runs there`,
    atMs: nowMs,
  },
});
