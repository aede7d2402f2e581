/** @file What differs between two job descriptions. */

import { describe, expect, it } from "vitest";
import { diffJobSpecs } from "../../../domain/job/job-difference.ts";
import { FULL_JOB, SMALL_JOB, specOf } from "../job-text.ts";

const diff = (was: object, is: object) =>
  diffJobSpecs(specOf(was), specOf(is)).map((each) => `${each.path}: ${each.was} → ${each.is}`);

describe("two job descriptions", () => {
  it("that mean the same do not differ, however they are written", () => {
    expect(diff(FULL_JOB, { ...FULL_JOB, deadline: "120m", timeLimit: "3600s" })).toEqual([]);
    expect(
      diff(SMALL_JOB, { ...SMALL_JOB, gang: { gpus: 1 }, priority: 0, class: "training" }),
    ).toEqual([]);
  });

  it.each([
    ["a number", { ...SMALL_JOB, gang: 2 }, ["gang.gpus: 1 → 2", "gang.min: 1 → 2"]],
    [
      "an argument",
      { ...SMALL_JOB, run: { command: ["true", "x"] } },
      ['run.command: "[\\"true\\"]" → "[\\"true\\",\\"x\\"]"'],
    ],
    [
      "a variable",
      { ...SMALL_JOB, run: { command: ["true"], env: { A: "1" } } },
      ['run.env.A: nothing → "1"'],
    ],
    ["a key that was absent", { ...SMALL_JOB, model: "gpt2" }, ['model: nothing → "gpt2"']],
    [
      "a whole map",
      { ...SMALL_JOB, run: { command: ["true"], checkpoint: { signal: "USR1" } } },
      [expect.stringMatching(/^run\.checkpoint: nothing → "{/)],
    ],
  ])("differ in %s", (_, is, want) => {
    expect(diff(SMALL_JOB, is)).toEqual(want);
  });
});
