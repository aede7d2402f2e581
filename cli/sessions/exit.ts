/** @file The end of a session as an exit status, and what is said of it. */

import type { SessionExit } from "../../protocol/session-contract.ts";
import type { CommandContext } from "../command/command-context.ts";
import { EXIT, statusOfSignal } from "../terminal/exit-code.ts";

const REASONS: Readonly<Record<NonNullable<SessionExit["reason"]>, string>> = {
  idle: "the session has ended: no byte has passed for the time of --idle",
  time: "the session has ended: it was open for a day",
  "job-ended": "the session has ended: the job's run has ended",
  withdrawn:
    "the session has ended: the host has no jobs of the key that opened it any more (its policy)",
  memory:
    "the session has ended: what was sent and not read by the other side filled the memory that the host keeps for sessions",
};

/** The command's own, 128 + n for signal n; 1 for a session that was ended without it. */
export function statusOfExit({ say }: CommandContext, exit: SessionExit | undefined): number {
  if (exit?.reason !== undefined) {
    say(REASONS[exit.reason]);
    return EXIT.failure;
  }
  if (exit?.signal !== undefined) return statusOfSignal(exit.signal);
  return exit?.exitCode ?? EXIT.failure;
}
