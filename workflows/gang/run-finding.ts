/**
 * @file Translates a failed `run` into what it says about the host: that nothing runs there, that nothing is known, or that
 * a GPU or the agent is broken.
 *
 * Silence is a suspicion, not proof; only the host's own answer proves anything.
 */

import {
  ActivityFailure,
  ApplicationFailure,
  isCancellation,
  TimeoutFailure,
} from "@temporalio/workflow";
import type { FailureCode } from "../../domain/values/codes.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { isFields } from "../../lib/fields.ts";
import type { RunFailure, RunOutcome } from "../../machines/gang/gang-state.ts";
import type { HostFault } from "../../protocol/agent-contract.ts";

export function runOutcomeOf(error: unknown, host: HostId): RunOutcome {
  if (isCancellation(error)) return { kind: "cancelled" };
  const inner = error instanceof ActivityFailure ? error.cause : error;
  if (inner instanceof TimeoutFailure) {
    return inner.timeoutType === "SCHEDULE_TO_START"
      ? failed("not taken", "HOST_LOST", `no agent took the run on ${host}`)
      : failed("silent", "HOST_LOST", `${host} stopped answering while the job ran there`);
  }
  const message = inner instanceof Error ? inner.message : String(inner);
  switch (inner instanceof ApplicationFailure ? inner.type : undefined) {
    case "STALE_TOKEN":
      return failed("nothing runs", "STALE_TOKEN", message);
    case "GANG_NOT_READY":
      return failed("nothing runs", "GANG_NOT_READY", message);
    case "HOST_REFUSED":
      return failed("never started", "HOST_REFUSED", message);
    case "IMAGE_UNAVAILABLE":
      return failed("never started", "IMAGE_UNAVAILABLE", message);
    case "FOLDER_UNAVAILABLE":
      return failed("never started", "FOLDER_UNAVAILABLE", message);
    case "HOST_LOST": {
      const fault = inner instanceof ApplicationFailure ? faultOf(inner) : undefined;
      if (fault === undefined) return failed("silent", "HOST_LOST", message);
      const cause = { code: "HOST_LOST", message, atMs: fault.faultAtMs } as const;
      return { kind: "failed", means: "faulty", cause };
    }
    default:
      return failed("broken", "HOST_REFUSED", `the agent of ${host} failed: ${message}`);
  }
}

function faultOf({ details }: ApplicationFailure): HostFault | undefined {
  const [fault] = details ?? [];
  const faultAtMs = isFields(fault) ? fault["faultAtMs"] : undefined;
  return typeof faultAtMs === "number" ? { faultAtMs } : undefined;
}

const failed = (means: RunFailure, code: FailureCode, message: string): RunOutcome => ({
  kind: "failed",
  means,
  cause: { code, message, atMs: Date.now() },
});
