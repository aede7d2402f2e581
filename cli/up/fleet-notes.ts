/** @file The state file of a fleet while `up` changes it: one write after the other, in whatever order processes become ready. */

import { writeUpState, type UpState, type UpWorker } from "../../workers/state.ts";

export interface FleetNotes {
  readonly state: () => UpState;
  /** Takes effect in the file at the next `write`. */
  readonly change: (part: Partial<UpState>) => void;
  /** As `change`, with all of the state. */
  readonly replace: (whole: UpState) => void;
  /** Adds `workers` and writes the file. */
  readonly write: (workers?: readonly UpWorker[]) => Promise<void>;
}

export function openNotes(stateDir: string, initial: UpState): FleetNotes {
  let state = initial;
  let writing = Promise.resolve();
  return {
    state: () => state,
    change(part) {
      state = { ...state, ...part };
    },
    replace: (whole) => void (state = whole),
    async write(workers = []) {
      state = { ...state, workers: [...state.workers, ...workers] };
      const next = state;
      writing = writing.then(() => writeUpState(stateDir, next));
      await writing;
    },
  };
}
