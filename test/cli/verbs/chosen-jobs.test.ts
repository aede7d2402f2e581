/** @file `cancel`, `hold` and `release` of all jobs that fit flags, and `retry`: what is changed, what is asked for first, what is refused. */

import { describe, expect, it } from "vitest";
import type { CancelOptions, JobFilter, JobHandle, ListedJob } from "../../../client/index.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { run, type Outside } from "../run.ts";

const JOBS = (["pending", "held", "running"] as const).map((state): ListedJob => ({
  jobId: jobId(`${state}-1`),
  state,
  clusters: [],
  hosts: [],
  submittedAtMs: 0,
}));

/** A client with one job of each state, that keeps what it was asked for. `held-1` refuses to be cancelled; it is `ended` that has ended. */
function world(ended = "held-1") {
  const filters: JobFilter[] = [];
  const changed: unknown[] = [];
  const client = {
    list: async function* (filter: JobFilter = {}): AsyncGenerator<ListedJob> {
      filters.push(filter);
      for (const job of JOBS) yield await Promise.resolve(job);
    },
    job: (id: string) =>
      ({
        cancel: (options: CancelOptions = {}) => {
          if (id === "held-1")
            return Promise.reject(new OrbweaverError("NOT_ALLOWED", "job held-1 refuses"));
          changed.push([id, options.isForced === true]);
          return Promise.resolve();
        },
        ending: () =>
          Promise.resolve({
            isCancelAsked: false,
            ...(id === ended && { outcome: { kind: "completed" } }),
          }),
        hold: () => (changed.push(id), Promise.resolve("held")),
        release: () => (changed.push(id), Promise.resolve("pending")),
      }) as unknown as JobHandle,
  };
  const run_ = (words: readonly string[], outside: Outside = {}) =>
    run(words, { client, ...outside }).then((said) => ({ ...said, filters, changed }));
  return run_;
}

describe("cancel by flags", () => {
  const words = ["cancel", "--user", "ada", "-l", "team=vision"];

  it("changes all that fit; one that has ended meanwhile is told, and is no failure", async () => {
    const { code, stdout, stderr, filters, changed } = await world()(words);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toBe("pending-1  cancelling\nheld-1  completed before\nrunning-1  cancelling\n");
    expect(filters).toEqual([{ user: "ada", labels: ["team=vision"] }]);
    expect(changed).toEqual([
      ["pending-1", false],
      ["running-1", false],
    ]);
  });

  it("goes on after a job that refuses, and ends with 1", async () => {
    const { code, stdout, stderr } = await world("running-1")(words);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: "error NOT_ALLOWED: job held-1 refuses\n",
    });
    expect(stdout).toBe("pending-1  cancelling\nrunning-1  cancelling\n");
  });

  it("of a job that was named and has ended is a failure", async () => {
    const { code, stderr } = await world()(["cancel", "held-1"]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: "error NOT_ALLOWED: job held-1 refuses\n",
    });
  });

  it.each(["", "n", "what", "no"])("asks on a terminal, and %j is a no", async (typed) => {
    const { code, stdout, stderr, changed } = await world()(words, { typed });
    expect({ code, stdout, changed }).toEqual({ code: 0, stdout: "", changed: [] });
    expect(stderr).toBe("cancel 3 jobs: pending-1, held-1, running-1? [y/N] nothing was changed\n");
  });

  it.each([
    ["y", []],
    ["YES", []],
    ["n", ["--yes"]],
  ])("goes on after %j with %j", async (typed, more) => {
    const { changed } = await world()([...words, ...more], { typed });
    expect(changed).toHaveLength(2);
  });

  it("never asks about jobs that were named", async () => {
    const { changed } = await world()(["cancel", "a"], { typed: "n" });
    expect(changed).toEqual([["a", false]]);
  });

  it("kills at once with --force", async () => {
    const { stdout, changed } = await world()(["cancel", "a", "--force"]);
    expect({ stdout, changed }).toEqual({ stdout: "a  killing\n", changed: [["a", true]] });
  });

  it.each([
    [["cancel"], /no job to cancel is named/],
    [["cancel", "a", "--me"], /ids and flags both choose/],
    [["cancel", "--state", "failed"], /cancel is not for jobs that are failed/],
    [["hold", "--state", "running"], /hold is not for jobs that are running/],
    [["cancel", "a", "--task", "3", "--force"], /--force kills whole jobs/],
  ])("%j is refused, and nothing was changed", async (wrong, wantError) => {
    const { code, stderr, changed } = await world()(wrong);
    expect({ code, changed }).toEqual({ code: 2, changed: [] });
    expect(stderr).toMatch(wantError);
  });
});

it.each([
  ["hold", ["pending-1"]],
  ["release", ["held-1"]],
])("%s by flags changes jobs of its own state alone", async (verb, wantIds) => {
  const { changed } = await world()([verb, "--me", "--json"]);
  expect(changed).toEqual(wantIds);
});

describe("retry", () => {
  const retrying = (job: Partial<JobHandle>, ...words: readonly string[]) =>
    run(["retry", "a", ...words], { client: { job: () => job as JobHandle } });
  const ended = () =>
    Promise.resolve({
      isCancelAsked: false,
      outcome: { kind: "terminated", message: "x" } as const,
    });

  it("of an ended array names the new job and its tasks", async () => {
    const asked: unknown[] = [];
    const rerun: JobHandle["rerun"] = ({ onUnsigned: _told, ...options } = {}) => {
      asked.push(options);
      return Promise.resolve({ jobId: jobId("a-r1"), isNew: true, tasks: "3,7-9" });
    };
    const { stdout } = await retrying({ ending: ended, rerun }, "--task", "3,7-9", "-k", "b");
    expect(stdout).toBe("a  again as a-r1, tasks 3,7-9\n");
    expect(asked).toEqual([{ tasks: "3,7-9", idempotencyKey: "b" }]);
    const { stdout: document } = await retrying({ ending: ended, rerun }, "--json");
    expect(JSON.parse(document)).toMatchObject({
      jobs: [{ jobId: "a", again: { jobId: "a-r1", isNew: true, tasks: "3,7-9" } }],
    });
  });

  it("that was asked for before says so", async () => {
    const rerun = () => Promise.resolve({ jobId: jobId("a-r1"), isNew: false });
    const { stderr } = await retrying({ ending: ended, rerun });
    expect(stderr).toBe("a-r1 had been submitted before; nothing was started\n");
  });

  it("of tasks of an array that has not ended stays inside it", async () => {
    const ending = () => Promise.resolve({ isCancelAsked: false });
    const retryTasks = (tasks: string) =>
      Promise.resolve({ done: tasks === "3" ? 1 : 0, stopping: 0, skipped: 0 });
    const { stdout } = await retrying({ ending, retryTasks }, "--task", "3");
    expect(stdout).toBe("a  1 to run again\n");
  });

  it("of tasks that had not ended names them", async () => {
    const ending = () => Promise.resolve({ isCancelAsked: false });
    const retryTasks = () =>
      Promise.resolve({ done: 1, stopping: 0, skipped: 2, skippedTasks: "4-5" });
    const { stdout } = await retrying({ ending, retryTasks }, "--task", "3-5");
    expect(stdout).toBe("a  1 to run again, 2 had not ended (4-5)\n");
  });
});
