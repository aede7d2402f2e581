/** @file Temporal as the agent's logic sees it: the activity that is being executed, and the siblings of a `run`. */

import type { PresenceBeat } from "../../domain/lease/gpu-use.ts";
import type { RunHeartbeat, RunOrder } from "../../protocol/agent-contract.ts";

/** The activity that is being executed. */
export interface ActivityTask {
  /** Queued and throttled; never fails, and proves nothing. */
  heartbeat(details?: RunHeartbeat): void;
  readonly cancelled: AbortSignal;
  /** Without a heartbeat for this long the server takes the attempt for lost. */
  readonly heartbeatTimeoutMs?: number;
  /** When the server gave out this attempt, by its clock. */
  readonly givenAtMs: number;
  /** Why `cancelled` was aborted. */
  reason(): CancelReason;
}

/**
 * `asked`: the workflow cancelled the activity. `forgotten`: the server no longer knows this attempt; it timed out there, or its workflow is
 * closed. `paused`: an operator paused or reset it, another attempt follows. `shutdown`: this agent ends.
 */
export type CancelReason = "asked" | "forgotten" | "paused" | "shutdown";

/** A `keepContact` activity. Its heartbeats are calls with an answer, so they prove contact. It outlives the activity's function. */
export interface HeartbeatTask {
  /**
   * `forgotten`: the server no longer knows the activity; `cancelled`: its workflow wants it to end. Fails when no answer came in time.
   * `beat`: what Temporal shows with it.
   */
  heartbeat(withinMs: number, beat?: PresenceBeat): Promise<"heard" | "forgotten" | "cancelled">;
  /** Completes the activity. Fails when the server did not answer in time. */
  end(how: "ended" | "cancelled", withinMs: number): Promise<void>;
}

/** The siblings of a `run`, through the server. */
export interface GangWatcher {
  /** One look at the `run` activities of the order's job; fails when the server does not answer. */
  look(order: RunOrder): Promise<GangView>;
}

export interface GangView {
  /** The workflow has ended: no workflow waits for this gang any more. */
  readonly isClosed: boolean;
  /** The last heartbeat of each `run` that has neither finished nor been cancelled, whatever its token. */
  readonly beats: readonly RunHeartbeat[];
}
