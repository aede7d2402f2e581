/**
 * @file Decides whether a run that did not complete is followed by another one, when, and whether the retry rule is charged.
 *
 * Failures of the user's own processes and secrets are charged to the job's retry rule. Refusals and losses of hosts are not, but ten of them end the
 * job. A command that does not exist and a time limit are final, since another run would end the same way.
 */

import type { FailureCode } from "../../domain/values/codes.ts";
import type { JobSpec, RetryRule } from "../../domain/job/job.ts";
import type { HostId } from "../../domain/values/ids.ts";

/** Failed runs so far: those charged to the retry rule, and those that hosts caused. */
export interface RunAccount {
  readonly charged: number;
  readonly uncharged: number;
  /** Of the latter, those since the last run that started in which a host could not get the image; none when absent. */
  readonly unfetched?: number;
}

/** The same once a run has started, for which its hosts have got the image. */
export const afterStart = ({ charged, uncharged }: RunAccount): RunAccount => ({
  charged,
  uncharged,
});

export type RunVerdict =
  | { readonly kind: "final" }
  | { readonly kind: "again"; readonly backoffMs: number; readonly account: RunAccount };

/** Starts that hosts refused or lost before the job gives up. */
export const MAX_UNCHARGED_FAILURES = 10;
/** The same where hosts cannot get the job's image: what three cannot get is mostly misspelt. */
const MAX_IMAGE_FAILURES = 3;
/** Hosts whose refusals count as one in a round over the fleet. Each takes a start. */
export const MOST_REFUSING_HOSTS = 32;
const UNCHARGED_BACKOFF_MS = 1_000;
const UNCHARGED_BACKOFF_MAX_MS = 60_000;

/** Failures of what the user has brought that another run may cure. */
const RETRYABLE: ReadonlySet<FailureCode> = new Set([
  "PROCESS_EXITED",
  "PROCESS_SIGNALLED",
  "OUT_OF_MEMORY",
  "SECRET_UNAVAILABLE",
]);
/** Failures of hosts, not of the job. */
const UNCHARGED: ReadonlySet<FailureCode> = new Set([
  "HOST_REFUSED",
  "IMAGE_UNAVAILABLE",
  "FOLDER_UNAVAILABLE",
  "GANG_NOT_READY",
  "HOST_LOST",
  "STALE_TOKEN",
  "STOPPED",
]);

/** What a host could not get from elsewhere: after a few hosts it is the thing that is wrong. */
const UNFETCHED: ReadonlySet<FailureCode> = new Set(["IMAGE_UNAVAILABLE", "FOLDER_UNAVAILABLE"]);

/** Failures that say that a host will not do, and another one may. */
export const isHostsRefusal = (code: FailureCode): boolean =>
  code === "HOST_REFUSED" || UNFETCHED.has(code);

/** Whether hosts or Orbweaver, not the job's own processes, ended a run. */
export const isUncharged = (code: FailureCode): boolean => UNCHARGED.has(code);

export function retryVerdict(code: FailureCode, before: RunAccount, retry: RetryRule): RunVerdict {
  if (UNCHARGED.has(code)) {
    const uncharged = before.uncharged + 1;
    const unfetched = (before.unfetched ?? 0) + (UNFETCHED.has(code) ? 1 : 0);
    if (uncharged >= MAX_UNCHARGED_FAILURES || unfetched >= MAX_IMAGE_FAILURES)
      return { kind: "final" };
    const backoffMs = Math.min(
      UNCHARGED_BACKOFF_MS * 2 ** before.uncharged,
      UNCHARGED_BACKOFF_MAX_MS,
    );
    const account = { ...before, uncharged, ...(unfetched > 0 && { unfetched }) };
    return { kind: "again", backoffMs, account };
  }
  const charged = before.charged + 1;
  if (!RETRYABLE.has(code) || charged >= retry.attempts) return { kind: "final" };
  return { kind: "again", backoffMs: retry.backoffMs, account: { ...before, charged } };
}

export interface RefusedRun {
  readonly cause: { readonly code: FailureCode; readonly host: HostId } | undefined;
  readonly account: RunAccount;
  /** Those that have refused in this round. */
  readonly avoidHosts: readonly HostId[];
}

/**
 * The same, of a job that knows who refused it. The scheduler does not choose hosts by amounts that they do not state and runtimes for images, so one that asks for
 * these may be refused by many hosts before it comes to one that has them: only the first refusal of a round counts.
 */
export function verdictOn(
  { cause, account, avoidHosts }: RefusedRun,
  {
    run,
    retry,
  }: { readonly run: Pick<JobSpec["run"], "resources" | "container">; readonly retry: RetryRule },
): RunVerdict {
  const isOneMore =
    (run.resources !== undefined || run.container !== undefined) &&
    cause?.code === "HOST_REFUSED" &&
    avoidHosts.length > 0 &&
    avoidHosts.length < MOST_REFUSING_HOSTS &&
    !avoidHosts.includes(cause.host);
  return isOneMore
    ? { kind: "again", backoffMs: UNCHARGED_BACKOFF_MS, account }
    : retryVerdict(cause?.code ?? "STOPPED", account, retry);
}
