/**
 * @file The agent's own end of an `attend` activity: heartbeats whose success it sees, as a port, so that tests can stand in for a server.
 *
 * The SDK's heartbeats are queued, throttled and never answered for, so they prove nothing. These are calls of a client with the
 * activity's task token, each with a deadline.
 */

import { Context } from "@temporalio/activity";
import {
  ActivityCancelledError,
  ActivityNotFoundError,
  ActivityPausedError,
  ActivityResetError,
  type Client,
} from "@temporalio/client";

export interface AttendTask {
  /**
   * `forgotten`: the server knows the activity no more; `cancelled`: its workflow wants it to end. Fails when no answer came in time.
   */
  heartbeat(withinMs: number): Promise<"heard" | "forgotten" | "cancelled">;
  /** The last word. Fails when it was not heard. */
  end(how: "ended" | "cancelled", withinMs: number): Promise<void>;
}

/** The task that the calling activity is; it outlives the activity's function. */
export function temporalAttendTask(client: Client): AttendTask {
  const { taskToken } = Context.current().info;
  const within = <T>(limitMs: number, call: () => Promise<T>): Promise<T> =>
    client.withAbortSignal(AbortSignal.timeout(Math.ceil(limitMs)), call);
  return {
    heartbeat: async (withinMs) => {
      try {
        await within(withinMs, () => client.activity.heartbeat(taskToken));
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
