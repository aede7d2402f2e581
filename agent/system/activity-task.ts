/** @file The real `ActivityTask`: the SDK's context of the activity that is being executed. */

import { Context } from "@temporalio/activity";
import type { ActivityTask } from "../ports/temporal.ts";

/** The task that the calling activity is. */
export function temporalTask(): ActivityTask {
  const context = Context.current();
  const { heartbeatTimeoutMs, currentAttemptScheduledTimestampMs } = context.info;
  return {
    givenAtMs: currentAttemptScheduledTimestampMs,
    ...(heartbeatTimeoutMs !== undefined && { heartbeatTimeoutMs }),
    heartbeat: (details) => {
      // Without a timeout the server takes no heartbeats, and orders have none.
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
