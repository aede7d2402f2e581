/** @file Labels of a job: what a file may say, what a search may name. */

import { describe, expect, it } from "vitest";
import { formatProblem, parseJobFile } from "../../../domain/job/job-file.ts";
import {
  labelsOf,
  labelTexts,
  MAX_LABELS,
  parseLabelChoice,
} from "../../../domain/job/job-labels.ts";

const read = (labels: unknown) =>
  parseJobFile({ name: "a", gang: 1, run: { command: ["x"] }, labels });

describe("labels of a job file", () => {
  it("stand in the spec as they were written, and nowhere when there are none", () => {
    const labels = { team: "vision", "org/sweep": "lr-7" };
    expect(read(labels)).toMatchObject({ kind: "parsed", spec: { labels } });
    const none = read({});
    expect(none.kind === "parsed" && "labels" in none.spec).toBe(false);
  });

  it.each<[unknown, string]>([
    [{ team: 7 }, "labels.team: 7 is a number, not text"],
    [{ "a b": "c" }, 'labels["a b"]'],
    [{ team: "a=b" }, '"a=b" is no name for the value of a label'],
    [{ team: "" }, "labels.team: empty"],
    [{ team: "x".repeat(64) }, "64 characters"],
    ["team=vision", "not a map"],
    [
      Object.fromEntries(Array.from({ length: MAX_LABELS + 1 }, (_, at) => [`k${at}`, "v"])),
      `write at most ${MAX_LABELS}`,
    ],
  ])("%j is refused by name", (labels, wantText) => {
    const refused = read(labels);
    expect(refused.kind).toBe("refused");
    const problems = refused.kind === "refused" ? refused.problems.map(formatProblem) : [];
    expect(problems.join("\n")).toContain(wantText);
  });
});

it("go to the search index and back", () => {
  const labels = { b: "2", a: "1" };
  expect(labelTexts(labels)).toEqual(["a=1", "b=2"]);
  expect(labelsOf(labelTexts(labels))).toEqual(labels);
});

it.each([
  ["team", { key: "team" }],
  ["team=vision", { key: "team", value: "vision" }],
])("a search for %j means %j", (text, value) => {
  expect(parseLabelChoice(text)).toEqual({ kind: "read", value });
});
