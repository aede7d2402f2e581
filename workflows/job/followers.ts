/** @file What a job tells the jobs that follow it, and how it follows others. Failures cost a word: every follower also looks for itself. */

import { patched, proxyActivities, proxyLocalActivities } from "@temporalio/workflow";
import type { Followers } from "../../machines/job/followers.ts";
import type { JobOutcome } from "../../machines/job/job-state.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { followSignal } from "../../protocol/messages.ts";
import type { FollowActivities } from "../../protocol/predecessors.ts";
import { onSignal } from "../runtime/signal-intake.ts";

const { followJobs, tellFollowers: tellThem } = proxyActivities<FollowActivities>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
  summary: "jobs that follow each other",
});
const { tellFollowers: tellEnd } = proxyActivities<Pick<FollowActivities, "tellFollowers">>({
  startToCloseTimeout: "60s",
  scheduleToCloseTimeout: "5m",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
  summary: "the end, for the jobs that follow",
});
const { tellFollowers: tellAtOnce } = proxyLocalActivities<Pick<FollowActivities, "tellFollowers">>(
  {
    startToCloseTimeout: "60s",
    scheduleToCloseTimeout: "2m",
    retry: { initialInterval: "500ms", maximumInterval: "10s" },
  },
);

export { followJobs };

/** The next word of a job without an array: one local activity at a time (docs/decisions/0014). */
export const tellStart = (job: JobId, followers: readonly JobId[]): Promise<void> =>
  tellAtOnce(followers, { job, state: "running" }).catch(() => undefined);

/** The same for an array, which has no local activities. */
export const tellStartOfArray = (job: JobId, followers: readonly JobId[]): Promise<void> =>
  tellThem(followers, { job, state: "running" }).catch(() => undefined);

/** A jobs worker that knew of no followers left their words alone: such a history has no marker. */
export const onFollow = (
  feed: (event: { readonly kind: "follow"; readonly note: unknown }) => void,
) =>
  onSignal(followSignal, (note) => {
    if (patched("followers")) feed({ kind: "follow", note });
  });

/** Also those that come while the others are told. The activity is no local one: what is told must be durable before. */
export async function tellFollowersEnd(
  job: JobId,
  { kind: state }: JobOutcome,
  followers: () => Followers,
): Promise<void> {
  const told = new Set<JobId>();
  for (;;) {
    const untold = followers().jobs.filter((id) => !told.has(id));
    if (untold.length === 0) return;
    for (const id of untold) told.add(id);
    await tellEnd(untold, { job, state }).catch(() => undefined);
  }
}
