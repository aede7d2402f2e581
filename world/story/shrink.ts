/**
 * @file Cuts a failing world to the fewest faults, orders and jobs that still break the same law.
 *
 * Delta debugging (Zeller and Hildebrandt): halves first, then ever smaller parts, one list after the other, until nothing can go. Cost: a play for each try;
 * `most` bounds them.
 */

import type { Outcome } from "../world.ts";
import type { Settings } from "../settings.ts";

const LISTS = ["faults", "orders", "jobs"] as const;

export interface Shrunk {
  readonly settings: Settings;
  readonly plays: number;
}

export function shrink(
  settings: Settings,
  play: (settings: Settings) => Outcome,
  most = 400,
): Shrunk {
  const law = play(settings).violation?.law;
  let plays = 1;
  let least = settings;
  const stillBreaks = (tried: Settings): boolean => {
    plays += 1;
    return play(tried).violation?.law === law;
  };
  for (const list of LISTS) {
    for (
      let size = Math.ceil(least[list].length / 2);
      size >= 1;
      size = size === 1 ? 0 : Math.ceil(size / 2)
    ) {
      for (let at = 0; at < least[list].length && plays < most;) {
        const part: readonly unknown[] = least[list];
        const tried = freed({
          ...least,
          [list]: [...part.slice(0, at), ...part.slice(at + size)],
        });
        if (stillBreaks(tried)) least = tried;
        else at += size;
      }
    }
  }
  return { settings: least, plays };
}

/** Nobody waits for a job that was left out. */
function freed(settings: Settings): Settings {
  const ids = new Set(settings.jobs.map(({ id }) => id));
  const jobs = settings.jobs.map((job) => {
    const { after, ...spec } = job.spec;
    return after?.every((each) => ids.has(each.job)) === false ? { ...job, spec } : job;
  });
  return { ...settings, jobs };
}
