/**
 * @file Whether a run that did not complete is followed by another one, when, and whom it is charged to.
 *
 * What the user's own processes did is charged to the job's retry rule; what hosts refused or lost is not, but a job may not
 * burn starts for ever. A command that does not exist, a time limit and the like are final: another run would end the same.
 */

import type { FailureCode } from "../domain/codes.ts";
import type { RetryRule } from "../domain/job.ts";

/** Failed runs so far, by who pays for them. */
export interface RunAccount {
  readonly charged: number;
  readonly uncharged: number;
}

export type RunVerdict =
  | { readonly kind: "final" }
  | { readonly kind: "again"; readonly backoffMs: number; readonly account: RunAccount };

/** Starts that hosts refused or lost before the job gives up. */
export const MAX_UNCHARGED_FAILURES = 10;
const UNCHARGED_BACKOFF_MS = 1_000;
const UNCHARGED_BACKOFF_MAX_MS = 60_000;

/** Failures of the user's own processes that another run may cure. */
const RETRYABLE: ReadonlySet<FailureCode> = new Set(["PROCESS_EXITED", "PROCESS_SIGNALLED"]);
/** Failures of hosts, not of the job. */
const UNCHARGED: ReadonlySet<FailureCode> = new Set([
  "HOST_REFUSED",
  "GANG_NOT_READY",
  "HOST_LOST",
  "STALE_TOKEN",
  "STOPPED",
]);

/** Whether the end of a run is no doing of the job's own processes. */
export const isUncharged = (code: FailureCode): boolean => UNCHARGED.has(code);

export function judgeRun(code: FailureCode, before: RunAccount, retry: RetryRule): RunVerdict {
  if (UNCHARGED.has(code)) {
    const uncharged = before.uncharged + 1;
    if (uncharged >= MAX_UNCHARGED_FAILURES) return { kind: "final" };
    const backoffMs = Math.min(
      UNCHARGED_BACKOFF_MS * 2 ** before.uncharged,
      UNCHARGED_BACKOFF_MAX_MS,
    );
    return { kind: "again", backoffMs, account: { ...before, uncharged } };
  }
  const charged = before.charged + 1;
  if (!RETRYABLE.has(code) || charged >= retry.attempts) return { kind: "final" };
  return { kind: "again", backoffMs: retry.backoffMs, account: { ...before, charged } };
}
