/**
 * @file The jobs that wait for this one, and which of them have yet to hear that it has started. Its end is told by its workflow, after its last step.
 *
 * A follower that asks again is told again. Those beyond the limit look for themselves, as all of them do from time to time (predecessors.ts).
 */

import type { JobId } from "../../domain/values/ids.ts";
import { isFields } from "../../scheduling/ledger/json-fields.ts";

export interface Followers {
  /** The newest last. */
  readonly jobs: readonly JobId[];
  /** So many of the first know that it has started. */
  readonly told: number;
}

export const NO_FOLLOWERS: Followers = Object.freeze({ jobs: [], told: 0 });

const MAX_FOLLOWERS = 1_000;

/** `note`: of the signal, which may be junk. */
export function withFollower(followers: Followers, note: unknown): Followers {
  const id = isFields(note) ? note["job"] : undefined;
  if (typeof id !== "string" || id === "" || /\s/.test(id)) return followers;
  const { jobs, told } = followers;
  const at = jobs.findIndex((each) => each === id);
  if (at === -1 && jobs.length >= MAX_FOLLOWERS) return followers;
  const others = jobs.filter((_, index) => index !== at);
  return { jobs: [...others, id as JobId], told: at !== -1 && at < told ? told - 1 : told };
}

/** Those that are to be told, and the followers once they were. */
export function tellAll(followers: Followers): {
  readonly followers: Followers;
  readonly untold: readonly JobId[];
} {
  const { jobs, told } = followers;
  return { followers: { jobs, told: jobs.length }, untold: jobs.slice(told) };
}
