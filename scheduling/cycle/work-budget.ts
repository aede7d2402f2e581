/** @file Counts the work of a cycle in candidates looked at, and says when the limit is reached. A count never depends on the clock. */

export interface WorkBudget {
  readonly spend: (candidates: number) => void;
  /** Candidates looked at so far. */
  readonly spent: () => number;
  readonly isSpent: () => boolean;
  /** Whether so many candidates more would leave some. */
  readonly isLeft: (candidates: number) => boolean;
}

export function openWorkBudget(maxCandidates: number): WorkBudget {
  let spent = 0;
  return {
    spend(candidates) {
      spent += candidates;
    },
    spent: () => spent,
    isSpent: () => spent >= maxCandidates,
    isLeft: (candidates) => spent + candidates < maxCandidates,
  };
}
