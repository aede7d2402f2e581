/**
 * @file What a job tells the jobs that follow it, and how it follows others. Failures cost a word: every follower also looks for itself.
 *
 * All by plain activities, beside the local ones that tell fleets: no follower that is hard to reach holds up what a fleet is to hear.
 */

import { patched, proxyActivities, upsertMemo } from "@temporalio/workflow";
import type { Followers } from "../../machines/job/followers.ts";
import type { JobOutcome } from "../../machines/job/job-state.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { followSignal } from "../../protocol/messages.ts";
import { FULL_MEMO, type FollowActivities } from "../../protocol/predecessors.ts";
import { onSignal } from "../runtime/signal-intake.ts";

const { followJobs } = proxyActivities<Pick<FollowActivities, "followJobs">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "30s" },
  summary: "jobs that follow each other",
});
/** Each try signals all followers, and a follower takes 10,000 signals in its life. */
const FEW_TRIES = {
  startToCloseTimeout: "60s",
  scheduleToCloseTimeout: "5m",
  retry: { initialInterval: "500ms", maximumInterval: "30s", maximumAttempts: 5 },
} as const;
const { tellFollowers } = proxyActivities<Pick<FollowActivities, "tellFollowers">>({
  ...FEW_TRIES,
  summary: "the start, for the jobs that follow",
});
const { tellFollowers: tellEnd } = proxyActivities<Pick<FollowActivities, "tellFollowers">>({
  ...FEW_TRIES,
  summary: "the end, for the jobs that follow",
});
export { followJobs };

export const tellStart = (job: JobId, followers: readonly JobId[]): Promise<undefined> =>
  tellFollowers(followers, { job, state: "running" }).then(
    () => undefined,
    () => undefined,
  );

export function refuseFollowers(): undefined {
  upsertMemo({ [FULL_MEMO]: true });
}

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
  let knownTo = 0;
  for (;;) {
    const unaware = followers().jobs.slice(knownTo);
    if (unaware.length === 0) return;
    knownTo += unaware.length;
    await tellEnd(unaware, { job, state }).catch(() => undefined);
  }
}
