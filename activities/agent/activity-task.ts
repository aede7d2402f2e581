/** @file What an agent's activities need of Temporal while they run, as a port, so that tests can stand in for a server. */

import { Context } from "@temporalio/activity";
import type { RunHeartbeat } from "../agent-contract.ts";

export interface ActivityTask {
  heartbeat(details?: RunHeartbeat): void;
  readonly cancelled: AbortSignal;
  /** Without a heartbeat for this long the server takes the attempt for lost. */
  readonly heartbeatTimeoutMs?: number;
  /** Why `cancelled` was aborted. */
  reason(): CancelReason;
}

/**
 * `asked`: the workflow cancelled the activity. `forgotten`: the server does not know this attempt any more; it timed out
 * there, or its workflow is closed. `paused`: an operator paused or reset it, another attempt follows. `shutdown`: this
 * agent ends.
 */
export type CancelReason = "asked" | "forgotten" | "paused" | "shutdown";

/** The task that the calling activity is. */
export function temporalTask(): ActivityTask {
  const context = Context.current();
  const { heartbeatTimeoutMs } = context.info;
  return {
    ...(heartbeatTimeoutMs !== undefined && { heartbeatTimeoutMs }),
    heartbeat: (details) => {
      // Without a timeout nobody listens, and orders have none.
      if (heartbeatTimeoutMs !== undefined) context.heartbeat(details);
    },
    cancelled: context.cancellationSignal,
    reason: () => {
      const details = context.cancellationDetails;
      const { reason } = context.cancellationSignal;
      if (reason instanceof Error && reason.message === "WORKER_SHUTDOWN") return "shutdown";
      if (details?.cancelRequested === true) return "asked";
      if (details?.workerShutdown === true) return "shutdown";
      if (details?.paused === true || details?.reset === true) return "paused";
      return "forgotten";
    },
  };
}
