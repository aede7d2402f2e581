/** @file What jobs tell the jobs that wait for them, and what those show of it. The signals are in `messages.ts`. */

import type { Dependency } from "../domain/job/dependency.ts";
import type { JobId } from "../domain/values/ids.ts";

/** `terminated`: ended from outside its own code. `gone`: the server knows no job of that id, or does not any more. */
export const PREDECESSOR_STATES = [
  "pending",
  "held",
  "running",
  "completed",
  "failed",
  "cancelled",
  "terminated",
  "gone",
] as const;
export type PredecessorState = (typeof PREDECESSOR_STATES)[number];

export interface PredecessorNews {
  readonly job: JobId;
  readonly state: PredecessorState;
}

/** A dependency, and how far it has come. */
export interface PredecessorView extends Dependency {
  /** As far as the job has heard; absent before it has. */
  readonly state?: PredecessorState;
  /** `failed`: it can never be met. */
  readonly verdict: "open" | "met" | "failed";
}

/** Memo in which a job that waits for others says so, so that a list need not ask it; the reason is a `PendingReason`. */
export const WAITS_MEMO = "orbweaverWaits";

/** Memo of a job that notes no more followers; `true`. A signal to it would be lost, and a run takes 10,000 in its life. */
export const FULL_MEMO = "orbweaverFollowersFull";

/** Activities of the jobs' workers about jobs that follow each other. */
export interface FollowActivities {
  /**
   * Looks at the jobs, also those that have ended already. If a follower is named, those that run and note followers hear of it before. Says nothing of a
   * job that cannot be reached; throws if none can.
   */
  followJobs(jobs: readonly JobId[], follower?: JobId): Promise<readonly PredecessorNews[]>;
  /** Signals each; one that has ended, or can take no signal, does not matter. Throws once all others were signalled if one could not be reached. */
  tellFollowers(followers: readonly JobId[], news: PredecessorNews): Promise<void>;
}
