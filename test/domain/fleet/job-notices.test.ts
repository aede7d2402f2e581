/** @file `notify:` of job files, and `jobNotices:` of fleet files, which says what it may name. */

import { describe, expect, it } from "vitest";
import { noticeRefusal, ruleOf } from "../../../domain/fleet/job-notices.ts";
import { fleetShapeProblem } from "../../../domain/fleet/fleet-shape.ts";
import { parseFleetYaml } from "../../../domain/fleet/fleet-file.ts";
import { parseJobFile } from "../../../domain/job/job-file.ts";
import { formatProblem } from "../../../domain/values/file-problem.ts";
import { problemsOf, SMALL_JOB, specOf } from "../job-text.ts";

const withNotify = (...notify: readonly unknown[]): unknown => ({ ...SMALL_JOB, notify });
const HOOK = "https://hooks.example.org/team/x";

describe("notify: of a job file", () => {
  it("is read, and is no part of what hosts are told", () => {
    const file = withNotify(
      { webhook: HOOK, on: ["failed", "waiting"], waiting: "2h" },
      { slack: "https://hooks.slack.com/services/T/B/s3cret", on: ["ended"] },
    );
    const parsed = parseJobFile(file);
    expect(parsed).toMatchObject({
      notices: [
        { way: "webhook", address: HOOK, on: ["failed", "waiting"], waitingMs: 7_200_000 },
        { way: "slack", address: "https://hooks.slack.com/services/T/B/s3cret", on: ["ended"] },
      ],
    });
    expect(specOf(file)).toEqual(specOf(SMALL_JOB));
  });

  it.each([
    [{ on: ["failed"] }, /nothing says how it is told; write webhook or slack/],
    [{ webhook: HOOK, slack: HOOK, on: ["failed"] }, /two ways to tell it/],
    [{ webhook: "http://u:p@a/", on: ["failed"] }, /is no plain address/],
    [{ slack: "http://a/../b", on: ["failed"] }, /is no plain address/],
    [{ webhook: HOOK, on: ["waiting"] }, /needs the time after which/],
    [{ webhook: HOOK, on: ["failed"], waiting: "1h" }, /on does not name it/],
    [{ webhook: HOOK, on: ["host-silent"] }, /host-silent/],
    [{ webhook: HOOK, on: [] }, /on/],
    [{ command: ["sh"], on: ["failed"] }, /command/],
  ])("%j is refused", (entry, pattern) => {
    expect(problemsOf(withNotify(entry)).join("\n")).toMatch(pattern);
  });

  it("has no more than eight entries", () => {
    const entry = { webhook: HOOK, on: ["failed"] };
    expect(problemsOf(withNotify(...Array.from({ length: 8 }, () => entry)))).toEqual([]);
    expect(problemsOf(withNotify(...Array.from({ length: 9 }, () => entry)))).toHaveLength(1);
  });
});

const fleetOf = (rules: string) =>
  parseFleetYaml(
    `clusters:\n  - {name: c, site: s, jurisdiction: EU, hosts: [{name: h, gpus: 1, type: H100}]}\njobNotices:\n${rules}`,
    { file: "fleet.yaml", read: () => ({ kind: "missing", reason: "is none" }) },
  );

describe("jobNotices: of a fleet file", () => {
  it("gives the ledger the addresses alone", () => {
    const parsed = fleetOf("  - {address: 'https://a/x', secretFile: s, private: true}");
    if (parsed.kind !== "parsed") throw new Error(parsed.problems.map(formatProblem).join());
    const { shape, jobNotices } = parsed.fleet;
    expect(shape.noticeAddresses).toEqual(["https://a/x"]);
    expect(jobNotices).toEqual([{ address: "https://a/x", secretFile: "s", private: true }]);
    expect(fleetShapeProblem(shape)).toBeUndefined();
    expect(fleetShapeProblem({ ...shape, noticeAddresses: ["a b"] })).toMatch(/no list of names/);
  });

  it.each([
    ["  - {address: 'https://*.example'}", /is no plain address/],
    ["  - {address: 'https://u@a'}", /is no plain address/],
    ["  - {address: 'https://a/?x'}", /an address with a query/],
    ["  - {address: 'https://a', command: [x]}", /command/],
  ])("%s is refused", (rules, pattern) => {
    const parsed = fleetOf(rules);
    expect(parsed.kind === "refused" && parsed.problems.map(formatProblem).join()).toMatch(pattern);
  });
});

describe("what a job may name", () => {
  it("is nothing unless listed, and the refusal says the remedy and no secret", () => {
    const secret = { address: "https://hooks.slack.com/services/T/B/s3cret" };
    const none = noticeRefusal([secret], undefined);
    expect(none).toMatch(/at https:\/\/hooks\.slack\.com, and the fleet lets job files name none/);
    expect(none).toMatch(/list it under jobNotices in the fleet file/);
    const some = noticeRefusal([secret, { address: HOOK }], ["https://hooks.example.org/"]);
    expect(some).toMatch(/name https:\/\/hooks\.example\.org\/\./);
    expect(`${none ?? ""}${some ?? ""}`).not.toMatch(/s3cret|services/);
    expect(noticeRefusal([{ address: HOOK }], ["https://hooks.example.org/team"])).toBeUndefined();
    expect(noticeRefusal([], undefined)).toBeUndefined();
  });

  it("is judged by the first rule that lists it", () => {
    const rules = [{ address: "https://a/x/", secretFile: "one" }, { address: "https://a" }];
    expect(ruleOf("https://a/x/y", rules)).toBe(rules[0]);
    expect(ruleOf("https://a/z", rules)).toBe(rules[1]);
    expect(ruleOf("https://b/z", rules)).toBeUndefined();
    expect(ruleOf("https://a/x/../z", rules)).toBeUndefined();
    expect(ruleOf("nonsense", rules)).toBeUndefined();
  });
});
