/** @file What the exit status says of a job that was waited for, and of an error of the command. */

import { describe, expect, it } from "vitest";
import { readFileSync } from "node:fs";
import path from "node:path";
import { FAILURE_CODES, type FailureCode } from "../../../domain/values/codes.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { sources } from "../../structure/sources.ts";
import { EXIT, exitCodeOfError, exitCodeOfOutcome } from "../../../cli/terminal/exit-code.ts";

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

describe("the table of docs/errors.md", () => {
  const page = readFileSync(path.join(import.meta.dirname, "../../../docs/errors.md"), "utf8");
  const [, section = ""] = page.split("## Exit statuses");
  const rows = [...section.matchAll(/^\| ([^|]+) \| ([^|]+) \|([^|]*)\|$/gm)]
    .slice(1)
    .map(([, status = "", , codes = ""]) => ({
      status,
      codes: [...codes.matchAll(/`([A-Z_]+)`/g)].map(([, code]) => code),
    }));
  const statusOf = (code: string) => rows.find(({ codes }) => codes.includes(code))?.status;
  /** Told of a run of the job, not of the command. */
  const OF_RUNS = new Map<FailureCode, [string, number]>([
    ["TIME_LIMIT", ["124", 124]],
    ["DEADLINE_EXCEEDED", ["124", 124]],
    ["COMMAND_NOT_FOUND", ["127", 127]],
    ["PROCESS_SIGNALLED", ["128 + n", 143]],
    ["OUT_OF_MEMORY", ["128 + n", 137]],
    ["PROCESS_EXITED", ["another", 9]],
  ]);

  it("has every status that the command line declares, and no other number", () => {
    const numbers = rows.flatMap(({ status }) => (/^\d+$/.test(status) ? [Number(status)] : []));
    // 126 comes from hosts, as a shell gives it.
    expect(numbers).toEqual([...new Set([...Object.values(EXIT), 126])].sort((a, b) => a - b));
  });

  it.each(FAILURE_CODES)("names %s with its status, or 1 without a name", (code) => {
    const [want, asJob] = OF_RUNS.get(code) ?? [];
    if (want === undefined) expect(statusOf(code) ?? "1").toBe(String(exitCodeOfError(code)));
    else {
      expect(statusOf(code)).toBe(want);
      const outcome = failed(code, { exitCode: 9, signal: "SIGTERM" });
      expect(exitCodeOfOutcome(outcome)).toBe(asJob);
    }
  });

  it("is the only place of a number that ends a command", () => {
    const numbered = sources
      .filter(({ file }) => file.startsWith("cli/") && file !== "cli/terminal/exit-code.ts")
      .filter(({ tree }) => /(exitWith|process\.exit)\(\d*[1-9]\d*\)/.test(tree.text));
    expect(numbered.map(({ file }) => file)).toEqual([]);
  });
});

function failed(code: FailureCode, more: { exitCode?: number; signal?: string }) {
  return { kind: "failed", message: "", failure: { code, attempts: 1, ...more } } as const;
}
