/**
 * @file Finds a host that fails whatever it is given: jobs of different tenants end there fast and badly, one after the other, and free it for the
 * next, so that one such host can eat a queue.
 *
 * A launch counts that failed by itself within a minute of its start, without a checkpoint: `FAST_MS`. Three such jobs, of at least two
 * tenants, with no sound launch between them and within an hour, are evidence: a single user's broken job fails everywhere. A sound launch is one
 * that completed, or ran longer. A stop, a lost supervisor or a limit of the job says nothing about the host, nor does the failure of a gang over
 * several hosts: any of them may have caused it. Pure.
 */

import type { FailureCode } from "../../domain/values/codes.ts";
import type { JobId, TenantId } from "../../domain/values/ids.ts";
import type { RunOrder, RunReport } from "../../protocol/agent-contract.ts";
import { SET_ASIDE } from "./set-aside.ts";

export interface FastFailure {
  readonly jobId: JobId;
  readonly tenant: TenantId;
  readonly code: FailureCode;
  readonly lastedMs: number;
  readonly atMs: number;
}

export const FAST_MS = 60_000;
export const LEAST_JOBS = 3;
export const LEAST_TENANTS = 2;
const WITHIN_MS = 3_600_000;
/** More is not needed to see that tenants differ, unless one of them submits most. */
const MOST_REMEMBERED = 16;

const HOST_MAY_CAUSE: ReadonlySet<FailureCode> = new Set([
  "PROCESS_EXITED",
  "PROCESS_SIGNALLED",
  "COMMAND_NOT_FOUND",
  "HOST_REFUSED",
]);

export type LaunchWord =
  | { readonly kind: "failed-fast"; readonly failure: FastFailure }
  | { readonly kind: "sound" }
  | { readonly kind: "nothing" };

/** What the end of a launch says about its host. */
export function launchWord({ jobId, holder, gang }: RunOrder, report: RunReport): LaunchWord {
  const { end, cause, startedAtMs, endedAtMs, checkpoint, tasks } = report;
  const lastedMs = endedAtMs - (startedAtMs ?? endedAtMs);
  const hasSaved =
    checkpoint !== undefined && startedAtMs !== undefined && checkpoint.atMs >= startedAtMs;
  if (lastedMs >= FAST_MS || hasSaved) return { kind: "sound" };
  const failure = (code: FailureCode): LaunchWord =>
    gang.length > 1
      ? { kind: "nothing" }
      : {
          kind: "failed-fast",
          failure: { jobId, tenant: holder.tenant, code, lastedMs, atMs: endedAtMs },
        };
  if (tasks !== undefined) {
    if (tasks.some((task) => task.end === "completed")) return { kind: "sound" };
    const isFailed = tasks.length > 0 && tasks.every((task) => task.end === "failed");
    return isFailed ? failure("PROCESS_EXITED") : { kind: "nothing" };
  }
  if (end === "completed") return { kind: "sound" };
  const isOwn = end === "failed" && cause !== undefined && HOST_MAY_CAUSE.has(cause.code);
  return isOwn ? failure(cause.code) : { kind: "nothing" };
}

/** The failures in a row after this launch; `isEvidence` when they are enough. Of a job that is tried again only the last failure counts. */
export function afterLaunch(
  row: readonly FastFailure[],
  word: LaunchWord,
): { readonly row: readonly FastFailure[]; readonly isEvidence: boolean } {
  if (word.kind === "nothing") return { row, isEvidence: false };
  if (word.kind === "sound") return { row: [], isEvidence: false };
  const { failure } = word;
  const next = [
    ...row.filter(({ jobId, atMs }) => jobId !== failure.jobId && failure.atMs - atMs <= WITHIN_MS),
    failure,
  ].slice(-MOST_REMEMBERED);
  const tenants = new Set(next.map(({ tenant }) => tenant));
  return { row: next, isEvidence: next.length >= LEAST_JOBS && tenants.size >= LEAST_TENANTS };
}

/** For the drain's reason and for logs. The last failure of a row that is evidence is the third, or the first of a second tenant. */
export function evidenceText(row: readonly FastFailure[], nowMs: number): string {
  const shown = row
    .slice(-LEAST_JOBS)
    .map(
      ({ jobId, tenant, code, lastedMs }) =>
        `${jobId} of ${tenant} ${code} after ${Math.round(lastedMs / 100) / 10} s`,
    );
  const tenants = new Set(row.map(({ tenant }) => tenant)).size;
  return `${SET_ASIDE}${instantText(nowMs)}: ${row.length} jobs of ${tenants} tenants failed here in a row, each within ${FAST_MS / 1_000} s of its start: ${shown.join(", ")}`;
}

/** `2030-05-04T06:00:00Z` */
export const instantText = (atMs: number): string =>
  new Date(atMs).toISOString().replace(/\.\d+Z$/, "Z");
