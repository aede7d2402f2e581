/** @file Activities of jobs that follow each other: a job registers with those that it waits for and looks at them, and is told by them. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { defineSearchAttributeKey } from "@temporalio/common";
import type { JobId } from "../domain/values/ids.ts";
import { followSignal, JOB_WORKFLOW, predecessorSignal } from "../protocol/messages.ts";
import type { FollowActivities, PredecessorState } from "../protocol/predecessors.ts";

const STATE_KEY = defineSearchAttributeKey("OrbweaverState", "KEYWORD");
/** Signals that are under way at a time. */
const AT_ONCE = 16;

export const createFollowActivities = (client: Client): FollowActivities => ({
  async followJobs(jobs, follower) {
    // First the word, then the look: what happens between the two is told.
    if (follower !== undefined)
      await inTurns(jobs, (job) =>
        ifThere(() => client.workflow.getHandle(job).signal(followSignal, { job: follower })),
      );
    const news: { readonly job: JobId; readonly state: PredecessorState }[] = [];
    await inTurns(jobs, async (job) => {
      news.push({ job, state: (await ifThere(() => stateOf(client, job))) ?? "gone" });
    });
    return news;
  },
  async tellFollowers(followers, news) {
    await inTurns(followers, (job) =>
      ifThere(() => client.workflow.getHandle(job).signal(predecessorSignal, news)),
    );
  },
});

async function stateOf(client: Client, job: JobId): Promise<PredecessorState> {
  const { type, status, typedSearchAttributes } = await client.workflow.getHandle(job).describe();
  if (type !== JOB_WORKFLOW) return "gone";
  switch (status.name) {
    case "COMPLETED":
      return "completed";
    case "FAILED":
      return "failed";
    case "CANCELLED":
      return "cancelled";
    case "TERMINATED":
    case "TIMED_OUT":
      return "terminated";
    default: {
      const said = typedSearchAttributes.get(STATE_KEY);
      return said === "held" || said === "running" ? said : "pending";
    }
  }
}

/** Undefined of a workflow that has ended or never was. */
async function ifThere<Answer>(ask: () => Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined;
    throw error;
  }
}

async function inTurns(
  jobs: readonly JobId[],
  tell: (job: JobId) => Promise<unknown>,
): Promise<void> {
  for (let at = 0; at < jobs.length; at += AT_ONCE)
    await Promise.all(jobs.slice(at, at + AT_ONCE).map(tell));
}
