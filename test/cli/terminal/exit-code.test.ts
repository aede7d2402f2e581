/** @file What the exit status says of a job that was waited for, and of an error of the command. */

import { describe, expect, it } from "vitest";
import type { FailureCode } from "../../../domain/values/codes.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { exitCodeOfError, exitCodeOfOutcome } from "../../../cli/terminal/exit-code.ts";

describe("the status of a job's end", () => {
  it.each<[string, Parameters<typeof exitCodeOfOutcome>[0], number]>([
    [
      "completed",
      {
        kind: "completed",
        result: { jobId: jobId("a"), attempts: 1, gpus: 1, hosts: [], queuedMs: 0, ranMs: 0 },
      },
      0,
    ],
    ["its process's own", failed("PROCESS_EXITED", { exitCode: 7 }), 7],
    ["1 for a process that ended without a status", failed("PROCESS_EXITED", {}), 1],
    ["128 + n for a signal", failed("PROCESS_SIGNALLED", { signal: "SIGKILL" }), 137],
    [
      "128 for a signal that this machine does not know",
      failed("PROCESS_SIGNALLED", { signal: "SIGODD" }),
      128,
    ],
    ["127 for a command that is not there", failed("COMMAND_NOT_FOUND", {}), 127],
    ["124 for the time limit", failed("TIME_LIMIT", {}), 124],
    ["124 for the deadline", failed("DEADLINE_EXCEEDED", {}), 124],
    ["1 for a host's failure", failed("HOST_LOST", {}), 1],
    ["130 for a cancelled job", { kind: "cancelled" }, 130],
    ["1 for a terminated one", { kind: "terminated", message: "" }, 1],
  ])("is %s", (_name, outcome, wantCode) => {
    expect(exitCodeOfOutcome(outcome)).toBe(wantCode);
  });
});

it.each<[FailureCode, number]>([
  ["BAD_INPUT", 2],
  ["MISCONFIGURED", 2],
  ["REQUEST_TOO_LARGE", 2],
  ["NOT_FOUND", 3],
  ["NO_CONNECTION", 4],
  ["TEMPORAL_SERVER_UNAVAILABLE", 4],
  ["IDEMPOTENCY_CONFLICT", 1],
  ["NOT_ALLOWED", 1],
])("an error %s ends the command with %i", (code, wantExit) => {
  expect(exitCodeOfError(code)).toBe(wantExit);
});

function failed(code: FailureCode, more: { exitCode?: number; signal?: string }) {
  return { kind: "failed", message: "", failure: { code, attempts: 1, ...more } } as const;
}
