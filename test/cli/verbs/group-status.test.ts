/** @file `status --group`: the jobs of a group as one. */

import { expect, it } from "vitest";
import type { JobFilter, ListedJob } from "../../../client/index.ts";
import { jobId, parseHostId } from "../../../domain/values/ids.ts";
import { run } from "../run.ts";

const listed = (
  id: string,
  state: ListedJob["state"],
  more: Partial<ListedJob> = {},
): ListedJob => ({
  jobId: jobId(id),
  state,
  gpus: 4,
  clusters: [],
  hosts: [],
  submittedAtMs: 0,
  ...more,
});

const JOBS: readonly ListedJob[] = [
  listed("a", "running", { hosts: [parseHostId("alpha/a1")] }),
  listed("b", "completed", { endedAtMs: 1 }),
  listed("c", "failed", { endedAtMs: 1 }),
  listed("d", "pending", {
    pending: { code: "WaitingForJobs", message: "", numbers: {}, holders: [], wakeOn: ["timer"] },
  }),
];

const asked: JobFilter[] = [];
const client = {
  async *list(filter: JobFilter = {}) {
    asked.push(filter);
    yield* await Promise.resolve(filter.labels?.[0] === "group=n-1" ? JOBS : []);
  },
};

it("says how many are in which state, what they hold, and why the others wait", async () => {
  const { code, stdout } = await run(["status", "--group", "n-1"], { client, columns: 80 });
  expect(code).toBe(0);
  expect(stdout.trimEnd().split("\n")).toEqual([
    expect.stringMatching(/^group +n-1$/),
    expect.stringMatching(/^jobs +4$/),
    expect.stringMatching(/^states +1 completed, 1 failed, 1 pending, 1 running$/),
    expect.stringMatching(/^GPUs +4 held$/),
    expect.stringMatching(/^waits +WaitingForJobs 1$/),
    expect.stringMatching(/^failed +c$/),
  ]);
  expect(asked.at(-1)).toEqual({ labels: ["group=n-1"], all: true, limit: 1_000 });
});

it("is one document with --json", async () => {
  const { stdout } = await run(["status", "--group", "n-1", "--json"], { client });
  expect(JSON.parse(stdout)).toMatchObject({
    group: "n-1",
    count: 4,
    states: { completed: 1, failed: 1, pending: 1, running: 1 },
    gpus: 4,
    failed: ["c"],
    waits: { WaitingForJobs: 1 },
  });
});

it.each([
  [["status", "--group", "n-2"], 3, /there is no job of group n-2/],
  [["status"], 2, /one job or one group/],
  [["status", "a", "--group", "n-1"], 2, /one job or one group/],
])("%j is refused", async (words, wantCode, wantError) => {
  const { code, stderr } = await run(words, { client });
  expect([code, stderr]).toEqual([wantCode, expect.stringMatching(wantError)]);
});
