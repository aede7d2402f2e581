/**
 * @file The command's exit status.
 *
 * 0 done · 1 failed · 2 wrong usage or input · 3 not found · 4 no connection · 5 the job of a what-if would never start. With `--wait` the job's own end is the status, as
 * in a shell: the process's status, 128 + n for signal n, 127 command not found, 124 out of time, 130 cancelled.
 */

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
  never: 5,
  interrupted: 130,
} as const;

export const EXIT_CODE_HELP =
  "Exit status: 0 done, 1 failed, 2 wrong usage or input, 3 not found,\n4 no connection.";

export const WHAT_IF_EXIT_CODE_HELP = "With --what-if, 5 if a job would never start.";

export const JSON_ERROR_HELP =
  'With --json, an error is also {"error": {"code", "message"}} on standard output.';

export const WAIT_EXIT_CODE_HELP =
  "With --wait, the job's own: the status of its process, 128+n for signal n,\n" +
  "127 command not found, 124 time limit or deadline, 130 cancelled.";

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
      return 130;
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
      return 128 + constants.signals.SIGKILL;
    case "PROCESS_SIGNALLED":
      return 128 + (signalNumber(signal) ?? 0);
    case "COMMAND_NOT_FOUND":
      return 127;
    case "TIME_LIMIT":
    case "DEADLINE_EXCEEDED":
      return 124;
    default:
      return EXIT.failure;
  }
}

function signalNumber(name: string | undefined): number | undefined {
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return name === undefined ? undefined : numbers[name];
}
