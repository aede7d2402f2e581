/**
 * @file The real `HeartbeatTask`: heartbeats as calls of a client with the activity's task token, each with a deadline.
 *
 * The SDK's own heartbeats are queued and throttled, and their result is not shown, so they prove no contact.
 */

import { Context } from "@temporalio/activity";
import {
  ActivityCancelledError,
  ActivityNotFoundError,
  ActivityPausedError,
  ActivityResetError,
  type Client,
} from "@temporalio/client";
import type { HeartbeatTask } from "../ports/temporal.ts";

/** The task that the calling activity is; it outlives the activity's function. */
export function temporalHeartbeatTask(client: Client): HeartbeatTask {
  const { taskToken } = Context.current().info;
  const within = <T>(limitMs: number, call: () => Promise<T>): Promise<T> =>
    client.withAbortSignal(AbortSignal.timeout(Math.ceil(limitMs)), call);
  return {
    heartbeat: async (withinMs, beat) => {
      try {
        await within(withinMs, () => client.activity.heartbeat(taskToken, beat));
        return "heard";
      } catch (error) {
        if (error instanceof ActivityCancelledError) return "cancelled";
        if (error instanceof ActivityNotFoundError) return "forgotten";
        // An operator paused or reset it: the server was there to say so, and goes on listening.
        if (error instanceof ActivityPausedError || error instanceof ActivityResetError)
          return "heard";
        throw error;
      }
    },
    end: (how, withinMs) =>
      within(withinMs, () =>
        how === "ended"
          ? client.activity.complete(taskToken, "ended")
          : client.activity.reportCancellation(taskToken),
      ),
  };
}
