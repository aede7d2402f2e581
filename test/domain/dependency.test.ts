/** @file Dependencies in job files and flags, in what a submitter signs, and in the check before a submission. */
import type { Client } from "@temporalio/client";
import { WorkflowNotFoundError } from "@temporalio/common";
import { expect, it } from "vitest";
import { checkPredecessors } from "../../client/predecessors.ts";
import { parseDependency } from "../../domain/job/dependency.ts";
import { contentOfSpec } from "../../protocol/signed-job.ts";
import { problemsOf, SMALL_JOB, specOf } from "./job-text.ts";

it("are read with their default, each once", () => {
  const after = [{ job: "a" }, { job: "b", on: "end" }, { job: "a", on: "success" }];
  expect(specOf({ ...SMALL_JOB, after, onFailedDependency: "end" })).toMatchObject({
    after: [
      { job: "a", on: "success" },
      { job: "b", on: "end" },
    ],
  });
  expect(specOf({ ...SMALL_JOB, after, onFailedDependency: "release" })).toMatchObject({
    mayFollowFailure: true,
  });
  expect(specOf(SMALL_JOB)).not.toHaveProperty("after");
});

it.each<[object, RegExp]>([
  [{ after: [] }, /after/],
  [{ after: ["a"] }, /after\[0\]/],
  [{ after: [{ job: "a b" }] }, /after\[0\]\.job/],
  [{ after: [{ job: "a", on: "sucess" }] }, /after\[0\]\.on.*did you mean success/],
  [{ after: Array.from({ length: 33 }, (_, at) => ({ job: `j${at}` })) }, /after/],
  [{ onFailedDependency: "release" }, /onFailedDependency.*waits for no other/],
])("%j is refused once, by its place", (keys, wantProblem) => {
  expect(problemsOf({ ...SMALL_JOB, ...keys })).toEqual([expect.stringMatching(wantProblem)]);
});

it("a group is the label of that name, and one of the sixteen", () => {
  expect(specOf({ ...SMALL_JOB, group: "n-1", labels: { a: "b" } }).labels).toEqual({
    a: "b",
    group: "n-1",
  });
  const labels = Object.fromEntries(Array.from({ length: 16 }, (_, at) => [`k${at}`, "v"]));
  expect(problemsOf({ ...SMALL_JOB, group: "n-1", labels })).toEqual([
    expect.stringMatching(/labels: 17 labels/),
  ]);
  expect(problemsOf({ ...SMALL_JOB, group: "n-1", labels: { group: "n-2" } })).toEqual([
    expect.stringMatching(/labels: the label group is "n-2", and group is "n-1"/),
  ]);
});

it.each([
  ["train-7", { job: "train-7" }],
  ["train-7:end", { job: "train-7", on: "end" }],
  ["ci:42", { job: "ci:42" }],
  ["ci:42:start", { job: "ci:42", on: "start" }],
])("--after %s", (text, want) => {
  expect(parseDependency(text)).toEqual(want);
});

it("are a part of what is signed", () => {
  const one = contentOfSpec(specOf({ ...SMALL_JOB, after: [{ job: "a" }] }));
  expect(one).toMatchObject({ after: [{ job: "a", on: "success" }] });
  const released = { ...SMALL_JOB, after: [{ job: "a" }], onFailedDependency: "release" };
  expect(contentOfSpec(specOf(released))).toEqual({ ...one, mayFollowFailure: true });
  expect(contentOfSpec(specOf(SMALL_JOB))).not.toHaveProperty("after");
});

it("of jobs that there are not, or that the submitter may not see, are refused together", async () => {
  const types = new Map([
    ["seen", "job"],
    ["hidden", "job"],
    ["fleet", "fleet"],
  ]);
  const describe = (id: string) => {
    const type = types.get(id);
    if (type !== undefined) return Promise.resolve({ type });
    return Promise.reject(new WorkflowNotFoundError("none", id, undefined));
  };
  // No more of the client is asked.
  const client = {
    withDeadline: (_at: number, call: () => unknown) => call(),
    workflow: { getHandle: (id: string) => ({ describe: () => describe(id) }) },
  } as unknown as Client;
  const after = ["seen", "hidden", "fleet", "none"].map((job) => ({ job }));
  const spec = specOf({ ...SMALL_JOB, after });
  const maySee = (job: string) => Promise.resolve(job !== "hidden");
  await expect(checkPredecessors(client, spec, maySee)).rejects.toMatchObject({
    code: "NOT_FOUND",
    details: { missing: ["hidden", "fleet", "none"] },
  });
  const known = specOf({ ...SMALL_JOB, after: [{ job: "seen" }] });
  await expect(checkPredecessors(client, known, maySee)).resolves.toBeUndefined();
});
