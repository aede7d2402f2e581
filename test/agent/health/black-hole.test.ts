import { describe, expect, it } from "vitest";
import {
  afterLaunch,
  evidenceText,
  launchWord,
  type FastFailure,
  type LaunchWord,
} from "../../../agent/health/black-hole.ts";
import { hostId, jobId, tenantId } from "../../../domain/values/ids.ts";
import type { RunReport } from "../../../protocol/agent-contract.ts";
import { HOST, orderOf } from "../fixture.ts";

const order = orderOf("false");
const failed = { code: "PROCESS_EXITED", message: "", atMs: 11_000 } as const;
const report = (over: Partial<RunReport>): RunReport => ({
  host: HOST,
  hasStarted: true,
  startedAtMs: 10_000,
  endedAtMs: 11_000,
  ranks: [],
  end: "failed",
  cause: failed,
  ...over,
});

describe("the end of a launch", () => {
  it.each<[string, Partial<RunReport>, LaunchWord["kind"]]>([
    ["that failed fast counts against its host", {}, "failed-fast"],
    [
      "whose program was not there counts",
      { cause: { ...failed, code: "COMMAND_NOT_FOUND" } },
      "failed-fast",
    ],
    ["that failed after a minute is sound", { endedAtMs: 70_000 }, "sound"],
    ["that wrote a checkpoint is sound", { checkpoint: { path: "/c", atMs: 10_500 } }, "sound"],
    [
      "with a checkpoint of a former run counts",
      { checkpoint: { path: "/c", atMs: 5_000 } },
      "failed-fast",
    ],
    ["that completed is sound", { end: "completed" }, "sound"],
    ["that was stopped says nothing", { end: "stopped" }, "nothing"],
    [
      "at its own limit of memory says nothing",
      { cause: { ...failed, code: "OUT_OF_MEMORY" } },
      "nothing",
    ],
    ["with one good task is sound", { tasks: [{ task: 0, end: "completed" }] }, "sound"],
    ["with bad tasks alone counts", { tasks: [{ task: 0, end: "failed" }] }, "failed-fast"],
    ["whose tasks had no turn says nothing", { tasks: [{ task: 0, end: "not-run" }] }, "nothing"],
  ])("%s", (_, over, want) => {
    expect(launchWord(order, report(over)).kind).toBe(want);
  });
});

it("a failure of a gang over several hosts says nothing about one of them", () => {
  const [own] = order.gang;
  const wide = orderOf("false", {
    gang: [...(own ? [own] : []), { host: hostId("eu-1", "other"), mask: 1, address: "10.0.0.2" }],
  });
  expect(launchWord(wide, report({})).kind).toBe("nothing");
  const tasks = [{ task: 0, end: "failed" as const }];
  expect(launchWord(wide, report({ tasks })).kind).toBe("nothing");
  expect(launchWord(wide, report({ end: "completed" })).kind).toBe("sound");
});

const failure = (job: string, tenant: string, atMs = 0): FastFailure => ({
  jobId: jobId(job),
  tenant: tenantId(tenant),
  code: "PROCESS_EXITED",
  lastedMs: 1_200,
  atMs,
});
const after = (...words: readonly (FastFailure | "sound")[]) => {
  let found = { row: [] as readonly FastFailure[], isEvidence: false };
  for (const word of words)
    found = afterLaunch(
      found.row,
      word === "sound" ? { kind: "sound" } : { kind: "failed-fast", failure: word },
    );
  return found;
};

describe("a host is set aside", () => {
  const [a, b, c] = [failure("a", "red"), failure("b", "red"), failure("c", "blue")];

  it.each<[string, readonly (FastFailure | "sound")[], boolean]>([
    ["for three jobs of two tenants", [a, b, c], true],
    ["not for two jobs", [a, c], false],
    [
      "not for jobs of one tenant, however many",
      [a, b, failure("d", "red"), failure("e", "red")],
      false,
    ],
    ["not where a sound launch lies between", [a, b, "sound", c], false],
    ["not for tries of the same jobs", [a, c, a, c, a], false],
    ["not over more than an hour", [a, b, failure("c", "blue", 3_600_001)], false],
  ])("%s", (_, words, want) => {
    expect(after(...words).isEvidence).toBe(want);
  });

  it("with the evidence and the time", () => {
    expect(evidenceText(after(a, b, c).row, 0)).toBe(
      "set aside at 1970-01-01T00:00:00Z: 3 jobs of 2 tenants failed here in a row, each within 60 s of its start: a of red PROCESS_EXITED after 1.2 s, b of red PROCESS_EXITED after 1.2 s, c of blue PROCESS_EXITED after 1.2 s",
    );
  });
});
