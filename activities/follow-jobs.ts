/** @file Activities of jobs that follow each other: a job registers with those that it waits for and looks at them, and is told by them. */

import {
  WorkflowNotFoundError,
  type Client,
  type WorkflowExecutionDescription,
} from "@temporalio/client";
import { defineSearchAttributeKey } from "@temporalio/common";
import type { JobId } from "../domain/values/ids.ts";
import { followSignal, JOB_WORKFLOW, predecessorSignal } from "../protocol/messages.ts";
import {
  FULL_MEMO,
  type FollowActivities,
  type PredecessorState,
} from "../protocol/predecessors.ts";
import { isInvalidArgument } from "./open-run.ts";
import { tellJob } from "./job-words.ts";
import { closedState } from "../protocol/closed-state.ts";

const STATE_KEY = defineSearchAttributeKey("OrbweaverState", "KEYWORD");
/** Signals that are under way at a time. */
const AT_ONCE = 16;
const OPEN: ReadonlySet<string> = new Set(["RUNNING", "PAUSED"]);

export const createFollowActivities = (client: Client): FollowActivities => ({
  async followJobs(jobs, follower) {
    const { answers, failures } = await inTurns(jobs, async (job) => ({
      job,
      state: await look(client, job, follower),
    }));
    if (answers.length === 0 && failures.length > 0) throw failures[0];
    return answers;
  },
  async tellFollowers(followers, news) {
    const { failures } = await inTurns(followers, (job) =>
      ifThere(() =>
        tellJob({ client, run: client.workflow.getHandle(job) }, predecessorSignal, news),
      ),
    );
    if (failures.length > 0) throw failures[0];
  },
});

/** With a follower: the word first, then the look, so what happens between the two is told. Only the first look may fail: no second word for a job. */
async function look(client: Client, job: JobId, follower?: JobId): Promise<PredecessorState> {
  const handle = client.workflow.getHandle(job);
  const found = await ifThere(() => handle.describe());
  if (found === undefined) return "gone";
  const doesNote =
    found.type === JOB_WORKFLOW && OPEN.has(found.status.name) && found.memo?.[FULL_MEMO] !== true;
  if (follower === undefined || !doesNote) return stateOf(found);
  try {
    await handle.signal(followSignal, { job: follower });
    return stateOf(await handle.describe());
  } catch {
    // The follower looks again.
    return stateOf(found);
  }
}

function stateOf({
  type,
  status,
  typedSearchAttributes,
}: WorkflowExecutionDescription): PredecessorState {
  if (type !== JOB_WORKFLOW) return "gone";
  const closed = closedState(status.name);
  if (closed !== undefined) return closed === "timed-out" ? "terminated" : closed;
  const said = typedSearchAttributes.get(STATE_KEY);
  return said === "held" || said === "running" ? said : "pending";
}

/** Undefined of a workflow that has ended or never was, or whose run takes no more signals, and of what is no id. */
async function ifThere<Answer>(ask: () => Promise<Answer>): Promise<Answer | undefined> {
  try {
    return await ask();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError || isInvalidArgument(error)) return undefined;
    throw error;
  }
}

/** All of them, whatever becomes of one. */
async function inTurns<Answer>(
  jobs: readonly JobId[],
  ask: (job: JobId) => Promise<Answer>,
): Promise<{ readonly answers: readonly Answer[]; readonly failures: readonly unknown[] }> {
  const ends: PromiseSettledResult<Answer>[] = [];
  for (let at = 0; at < jobs.length; at += AT_ONCE)
    ends.push(...(await Promise.allSettled(jobs.slice(at, at + AT_ONCE).map(ask))));
  return {
    answers: ends.flatMap((end) => (end.status === "fulfilled" ? [end.value] : [])),
    failures: ends.flatMap((end): unknown[] => (end.status === "rejected" ? [end.reason] : [])),
  };
}
