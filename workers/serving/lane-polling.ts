/**
 * @file How long a lane polls the other lanes before it sleeps.
 *
 * Waking a thread costs as much as a small part, so a short poll saves time when the next input is about to arrive. A poll that finds
 * nothing halves the time of the next one, and polling stops when that is too short; it is tried again after a number of waits. So a lane
 * soon stops polling where the other lane computes for long, or needs this very core.
 */

/** A few times the cost of waking a sleeping thread. */
const LONGEST_POLL_MS = 0.2;
/** A part whose poll would be shorter is not polled for. */
const SHORTEST_POLL_MS = 0.02;
/** Waits without a poll before polling is tried again. */
const WAITS_BEFORE_RETRY = 32;

export interface PollTime {
  /** How long to poll for the part's inputs now; undefined: not at all. */
  readonly next: () => number | undefined;
  readonly record: (hasFound: boolean) => void;
}

/** One for each part, because each part's inputs come from other lanes. */
export function createPollTime(): PollTime {
  let pollMs = LONGEST_POLL_MS;
  let waitsWithout = 0;
  return {
    next() {
      if (pollMs < SHORTEST_POLL_MS) {
        waitsWithout += 1;
        if (waitsWithout < WAITS_BEFORE_RETRY) return undefined;
        pollMs = LONGEST_POLL_MS;
        waitsWithout = 0;
      }
      return pollMs;
    },
    record(hasFound) {
      pollMs = hasFound ? LONGEST_POLL_MS : pollMs / 2;
    },
  };
}
