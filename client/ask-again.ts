/**
 * @file How long a client waits before it asks again for what is not there yet: shortly at first, then twice as long each time.
 *
 * So an answer that comes soon is seen soon, one that comes late is seen at most as long again after it came, and questions that nobody answers get
 * rare. Cost: some six questions in the first second.
 */

/** Most answers are there within this, and a question takes the server a few milliseconds. */
const FIRST_MS = 20;
const MOST_MS = 500;

/** Milliseconds before the next question, after so many tries that brought nothing (0: after the first); never more than `mostMs`. */
export const pauseMs = (tries: number, mostMs = MOST_MS): number =>
  Math.min(mostMs, FIRST_MS * 2 ** tries);
