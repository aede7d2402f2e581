/**
 * @file What a failed `run` says about its host: that nothing runs there, that nobody knows, or that the agent is broken.
 *
 * Silence is a suspicion, not proof; only the host's own word proves anything.
 */

import {
  ActivityFailure,
  ApplicationFailure,
  isCancellation,
  TimeoutFailure,
} from "@temporalio/workflow";
import type { RunCause } from "../activities/agent-contract.ts";
import type { FailureCode } from "../domain/codes.ts";
import type { HostId } from "../domain/ids.ts";

export interface Finding {
  readonly means:
    /** The host says so itself. */
    | "nothing runs"
    /** This attempt was refused or called off before anything started; an earlier one may have started something. */
    | "never started"
    | "nobody took it"
    | "silent"
    /** The agent failed in a way that it has no word for. */
    | "broken";
  readonly cause: RunCause;
}

export function findingOf(error: unknown, host: HostId, isStopping: boolean): Finding {
  const inner = error instanceof ActivityFailure ? error.cause : error;
  const finding = (means: Finding["means"], code: FailureCode, message: string): Finding => ({
    means,
    cause: { code, message, atMs: Date.now() },
  });
  if (isCancellation(error)) {
    // Nobody but the stop cancels it; an operator's pause looks alike, and leaves the processes alone.
    return isStopping
      ? finding("never started", "STOPPED", `stopped before it started on ${host}`)
      : finding("silent", "HOST_LOST", `the run on ${host} is no longer watched`);
  }
  if (inner instanceof TimeoutFailure) {
    return inner.timeoutType === "SCHEDULE_TO_START"
      ? finding("nobody took it", "HOST_LOST", `no agent took the run on ${host}`)
      : finding("silent", "HOST_LOST", `${host} stopped answering while the job ran there`);
  }
  const message = inner instanceof Error ? inner.message : String(inner);
  switch (inner instanceof ApplicationFailure ? inner.type : undefined) {
    case "STALE_TOKEN":
      return finding("nothing runs", "STALE_TOKEN", message);
    case "GANG_NOT_READY":
      return finding("nothing runs", "GANG_NOT_READY", message);
    case "HOST_REFUSED":
      return finding("never started", "HOST_REFUSED", message);
    case "HOST_LOST":
      return finding("silent", "HOST_LOST", message);
    default:
      return finding("broken", "HOST_REFUSED", `the agent of ${host} failed: ${message}`);
  }
}
