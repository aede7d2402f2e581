/** @file When a fleet's run takes its turns. */

import type { FleetState } from "./state.ts";

/** Whether a turn may begin: the run goes on, and none is under way. */
export const isAwake = (state: FleetState): boolean => state.phase === "open" && !isInTurn(state);

/** The proof of words is being looked at, or a plan is in the making. */
export const isInTurn = ({ cycle, words }: FleetState): boolean =>
  cycle.underway !== undefined || words?.question !== undefined;
