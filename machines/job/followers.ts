/**
 * @file The jobs that wait for this one, and which of them have yet to hear that it has started. Its end is told by its workflow, after its last step.
 *
 * Each is noted once. Those beyond the limit look for themselves, as all of them do from time to time (predecessors.ts), and later ones are asked to.
 */

import { isJobReference } from "../../domain/job/dependency.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { isFields } from "../../lib/fields.ts";

export interface Followers {
  /** The newest last. */
  readonly jobs: readonly JobId[];
  /** So many of the first know that it has started. */
  readonly startKnown: number;
  /** Those that come now are asked to look for themselves, without a word. */
  readonly isFull: boolean;
}

export type FollowersCommand =
  /** Tells them that it has started. */
  | { readonly kind: "tell-followers"; readonly followers: readonly JobId[] }
  /** Says where all can read it that no more are noted. */
  | { readonly kind: "refuse-followers" };

export const NO_FOLLOWERS: Followers = Object.freeze({
  jobs: [],
  startKnown: 0,
  isFull: false,
});

export const MAX_FOLLOWERS = 1_000;

/** `note`: of the signal, which may be junk. */
export function withFollower(followers: Followers, note: unknown): Followers {
  const id = isFields(note) ? note["job"] : undefined;
  const { jobs } = followers;
  const isNew = isJobReference(id) && jobs.length < MAX_FOLLOWERS && !jobs.includes(id);
  return isNew ? { ...followers, jobs: [...jobs, id] } : followers;
}

/** What the followers, and those that would follow, are to hear now; and the followers once they have. */
export function newsForFollowers(
  { jobs, startKnown, isFull }: Followers,
  hasStarted: boolean,
): { readonly followers: Followers; readonly commands: readonly FollowersCommand[] } {
  const unaware = hasStarted ? jobs.slice(startKnown) : [];
  const isFullNow = jobs.length >= MAX_FOLLOWERS;
  return {
    followers: { jobs, startKnown: startKnown + unaware.length, isFull: isFullNow },
    commands: [
      ...(unaware.length > 0 ? [{ kind: "tell-followers", followers: unaware } as const] : []),
      ...(isFullNow && !isFull ? [{ kind: "refuse-followers" } as const] : []),
    ],
  };
}
