/**
 * @file How the part of one host ended, and what the ends of all hosts say of their gang.
 *
 * A gang has completed when every host says so. The earliest cause is the reported one, and what Orbweaver stopped itself is none. A
 * host that could not confirm that nothing runs there is named, unless it answered the order to stop, or was fenced.
 */

import type {
  CheckpointMark,
  RunCause,
  RunReport,
  StopReport,
  TaskEnd,
} from "../activities/agent-contract.ts";
import { byCodeUnit, type HostId } from "../domain/ids.ts";

export interface GangEnd {
  readonly end: "completed" | "failed" | "stopped";
  readonly cause?: RunCause & { readonly host: HostId };
  readonly unconfirmedHosts: readonly HostId[];
  readonly startedAtMs?: number;
  readonly endedAtMs: number;
  readonly checkpoint?: CheckpointMark;
  /** Of the gang's collectives, by the first of its hosts whose processes said so. */
  readonly measuredGbs?: number;
  /** Of a batch: what its hosts said of its tasks. */
  readonly tasks?: readonly TaskEnd[];
}

export type HostEnd =
  | { readonly kind: "reported"; readonly report: RunReport }
  /** It never started and never will. */
  | { readonly kind: "refused"; readonly cause: RunCause }
  | { readonly kind: "unconfirmed"; readonly cause: RunCause }
  /** The fleet has given the host up: there is nothing left to confirm. */
  | { readonly kind: "fenced"; readonly cause: RunCause };

/** Of an array task over hosts, too, the first that goes wrong ends the rest; alone on its host it is the batch's affair. */
export function isGood(end: HostEnd): boolean {
  if (end.kind !== "reported" || end.report.end !== "completed") return false;
  const { tasks = [] } = end.report;
  return tasks.length !== 1 || tasks[0]?.end === "completed";
}

/** `stopped`: what hosts said that were told to stop, or that the fleet has given them up. */
export function gangEnd(
  ends: ReadonlyMap<HostId, HostEnd>,
  stopped: ReadonlyMap<HostId, StopReport | "fenced">,
  grantedAtMs: number,
): GangEnd {
  const reports = [...ends.values()].flatMap((end) =>
    end.kind === "reported" ? [end.report] : [],
  );
  // An agent that died takes what it saw of the start along; its successor knows what it stopped.
  const stops = [...stopped.values()].flatMap((answer) => (answer === "fenced" ? [] : [answer]));
  const reported = reports.flatMap((report) => report.startedAtMs ?? []);
  const hadProcesses = stops.some((stop) => stop.hadProcesses);
  const started = reported.length === 0 && hadProcesses ? [grantedAtMs] : reported;
  const checkpoint = [...reports, ...stops]
    .flatMap((word) => word.checkpoint ?? [])
    .reduce<CheckpointMark | undefined>(
      (best, mark) => (best === undefined || mark.atMs > best.atMs ? mark : best),
      undefined,
    );
  const cause = earliestCause(ends);
  const measured = reports.flatMap(({ host, measuredGbs }) =>
    measuredGbs === undefined ? [] : [{ host, measuredGbs }],
  );
  const [first] = measured.sort((a, b) => byCodeUnit(a.host, b.host));
  return {
    end: cause !== undefined ? "failed" : endOf(reports, ends),
    ...(cause !== undefined && { cause }),
    unconfirmedHosts: [...ends].flatMap(([host, end]) =>
      end.kind === "unconfirmed" && !stopped.has(host) ? [host] : [],
    ),
    ...(started.length > 0 && { startedAtMs: Math.min(...started) }),
    endedAtMs: Math.max(Date.now(), ...reports.map((report) => report.endedAtMs)),
    ...(checkpoint !== undefined && { checkpoint }),
    ...(first !== undefined && { measuredGbs: first.measuredGbs }),
    ...(reports.some(({ tasks }) => tasks !== undefined) && {
      tasks: reports.flatMap(({ tasks = [] }) => tasks),
    }),
  };
}

function endOf(
  reports: readonly RunReport[],
  ends: ReadonlyMap<HostId, HostEnd>,
): "completed" | "stopped" {
  return reports.length === ends.size && reports.every((report) => report.end === "completed")
    ? "completed"
    : "stopped";
}

/** The first thing that went wrong; what Orbweaver stopped itself is no cause. */
function earliestCause(
  ends: ReadonlyMap<HostId, HostEnd>,
): (RunCause & { host: HostId }) | undefined {
  let first: (RunCause & { host: HostId }) | undefined;
  for (const [host, end] of ends) {
    const cause =
      end.kind === "reported"
        ? end.report.end === "failed"
          ? end.report.cause
          : undefined
        : end.cause;
    if (cause === undefined || cause.code === "STOPPED") continue;
    if (first === undefined || cause.atMs < first.atMs) first = { ...cause, host };
  }
  return first;
}

export const neverStarted = (host: HostId): HostEnd => ({
  kind: "refused",
  cause: { code: "STOPPED", message: `stopped before it started on ${host}`, atMs: Date.now() },
});

export const fencedOff = (host: HostId): HostEnd => ({
  kind: "fenced",
  cause: {
    code: "HOST_LOST",
    message: `${host} was fenced: it had not answered for too long, or an operator gave it up`,
    atMs: Date.now(),
  },
});

export const unconfirmed = (host: HostId): HostEnd => ({
  kind: "unconfirmed",
  cause: {
    code: "STOPPED",
    message: `${host} has not confirmed that nothing runs there`,
    atMs: Date.now(),
  },
});
