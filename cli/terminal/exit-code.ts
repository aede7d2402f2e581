/** @file The command's exit status. All of them stand in one table of docs/errors.md, which a test holds equal to this file. */

import type { JobOutcome } from "../../client/index.ts";
import { constants } from "node:os";
import type { FailureCode } from "../../domain/values/codes.ts";
import type { JobFailureDetails } from "../../protocol/messages.ts";

export const EXIT = {
  ok: 0,
  failure: 1,
  usage: 2,
  notFound: 3,
  noConnection: 4,
  /** A job that was asked about, or that was to be submitted. */
  never: 5,
  outOfTime: 124,
  commandNotFound: 127,
  hungUp: 129,
  /** By Ctrl-C, or the job by somebody. */
  interrupted: 130,
} as const;

const SIGNALLED = 128;

export const EXIT_CODE_HELP =
  "Exit status: 0 done, 1 failed, 2 wrong usage or input, 3 not found,\n4 no connection.";

export const NEVER_EXIT_CODE_HELP = "5 a job would never start on this fleet.";

export const JSON_ERROR_HELP =
  'With --json, an error is also {"error": {"code", "message"}} on standard output.';

export const WAIT_EXIT_CODE_HELP =
  "With --wait, the job's own: the status of its process, 128+n for signal n,\n" +
  "127 command not found, 124 time limit or deadline, 130 cancelled.";

/** Of verbs that end as a job does. */
export const JOB_EXIT_CODE_HELP =
  "Exit status: the job's own: the status of its process, 128+n for signal n,\n" +
  "127 command not found, 124 time limit or deadline, 130 cancelled. Of Orbweaver\n" +
  "itself: 1 failed, 2 wrong usage or input, 3 not found, 4 no connection.";

/** The status for an error of the command itself. */
export function exitCodeOfError(code: FailureCode): number {
  switch (code) {
    case "BAD_INPUT":
    case "MISCONFIGURED":
    case "REQUEST_TOO_LARGE":
    case "ENCRYPTION_KEY_MISSING":
      return EXIT.usage;
    case "NOT_FOUND":
      return EXIT.notFound;
    case "NO_CONNECTION":
    case "TEMPORAL_SERVER_UNAVAILABLE":
      return EXIT.noConnection;
    case "NEVER_STARTS":
      return EXIT.never;
    default:
      return EXIT.failure;
  }
}

/** The status for the end of a job that was waited for. */
export function exitCodeOfOutcome(outcome: JobOutcome): number {
  switch (outcome.kind) {
    case "completed":
      return EXIT.ok;
    case "cancelled":
      return EXIT.interrupted;
    case "terminated":
      return EXIT.failure;
    case "failed":
      return exitCodeOfFailure(outcome.failure);
  }
}

function exitCodeOfFailure({ code, exitCode, signal }: JobFailureDetails): number {
  switch (code) {
    case "PROCESS_EXITED":
      return exitCode === undefined || exitCode === 0 ? EXIT.failure : exitCode;
    case "OUT_OF_MEMORY":
      return SIGNALLED + constants.signals.SIGKILL;
    case "PROCESS_SIGNALLED":
      return statusOfSignal(signal);
    case "COMMAND_NOT_FOUND":
      return EXIT.commandNotFound;
    case "TIME_LIMIT":
    case "DEADLINE_EXCEEDED":
      return EXIT.outOfTime;
    default:
      return EXIT.failure;
  }
}

/** Of a signal that this machine does not know, 128 alone. */
export function statusOfSignal(name: string | undefined): number {
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return SIGNALLED + (numbers[name ?? ""] ?? 0);
}
