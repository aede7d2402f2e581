/** @file A handle on a job that has ended: it cannot be cancelled, has no logs if it never started, and tells its failure. */

import type { Client } from "@temporalio/client";
import { expect, it } from "vitest";
import { openJob } from "../../client/job-handle.ts";
import { explainQuery, type JobView } from "../../protocol/messages.ts";

interface Told {
  readonly status: string;
  readonly type?: string;
  readonly isCancelAsked?: boolean;
  readonly pending?: JobView["pending"] | undefined;
  /** What its fleet says of it, one answer a question. */
  readonly answers?: readonly string[];
}

const SAID = new Map([["OrbweaverUser", "ada"]]);

function fake({ status, type = "job", isCancelAsked = false, pending, answers = [] }: Told) {
  const cancelled: string[] = [];
  const view: Partial<JobView> = {
    ...{ fleet: "f", state: "pending", attempts: [] },
    ...(pending && { pending }),
  };
  const left = [...answers];
  const handle = {
    describe: () =>
      Promise.resolve({
        type,
        status: { name: status },
        typedSearchAttributes: { get: ({ name }: { name: string }) => SAID.get(name) },
        raw: { workflowExtendedInfo: { cancelRequested: isCancelAsked } },
        ...(status !== "RUNNING" && { closeTime: new Date(7_000) }),
      }),
    query: (query: { readonly name: string }) =>
      Promise.resolve(query === explainQuery ? { kind: left.shift() } : view),
    result: () => Promise.resolve({ jobId: "a" }),
    cancel: () => {
      cancelled.push("a");
      return Promise.resolve();
    },
  };
  const client = {
    workflow: { getHandle: () => handle },
    withDeadline: (_deadline: number, call: () => Promise<unknown>) => call(),
  };
  // The fake has what a handle uses of a client.
  return { job: openJob(client as unknown as Client, "a", "ada"), cancelled };
}

it.each([
  ["COMPLETED", "completed"],
  ["FAILED", "failed"],
  ["CANCELLED", "cancelled"],
  ["TERMINATED", "terminated"],
])("one that is %s is not cancelled", async (status, wantState) => {
  const { job, cancelled } = fake({ status });
  await expect(job.cancel()).rejects.toMatchObject({
    code: "NOT_ALLOWED",
    message: `job a has already ended (${wantState})`,
  });
  expect(cancelled).toEqual([]);
});

it("one that goes on is cancelled", async () => {
  const { job, cancelled } = fake({ status: "RUNNING" });
  await job.cancel();
  expect(cancelled).toEqual(["a"]);
});

it("a workflow that is no job is not cancelled", async () => {
  const { job, cancelled } = fake({ status: "RUNNING", type: "fleet" });
  await expect(job.cancel()).rejects.toMatchObject({ code: "NOT_FOUND" });
  expect(cancelled).toEqual([]);
});

it("one that ended before it started has no logs, and that is no matter of time", async () => {
  const { job } = fake({ status: "FAILED" });
  await expect(job.logs()[Symbol.asyncIterator]().next()).rejects.toMatchObject({
    code: "NOT_FOUND",
    message: expect.stringMatching(/ended \(failed\) before it started/),
  });
});

it("tells who submitted it, when and how it ended, and whether it was asked to stop", async () => {
  const { job } = fake({ status: "COMPLETED", isCancelAsked: true });
  expect(await job.ending()).toEqual({
    user: "ada",
    isCancelAsked: true,
    endedAtMs: 7_000,
    outcome: { kind: "completed", result: { jobId: "a" } },
  });
  expect(await fake({ status: "RUNNING" }).job.ending()).toEqual({
    user: "ada",
    isCancelAsked: false,
  });
});

it("on its way into its fleet is explained once it is there", async () => {
  const { job } = fake({ status: "RUNNING", answers: ["unknown", "unknown", "waiting", "leased"] });
  expect((await job.explain()).fleet).toEqual({ kind: "waiting" });
});

const ELSEWHERE: JobView["pending"] = {
  code: "WaitingForJobs",
  message: "",
  numbers: {},
  holders: [],
  wakeOn: [],
};

it.each<Told>([{ status: "RUNNING", pending: ELSEWHERE }, { status: "COMPLETED" }])(
  "that is not on its way is explained at once: %o",
  async (told) => {
    const { job } = fake({ ...told, answers: ["unknown", "waiting"] });
    expect((await job.explain()).fleet).toEqual({ kind: "unknown" });
  },
);

it("a job that was just submitted is waited for before it is said to be no array", async () => {
  const order = { done: 1, stopping: 0, skipped: 0 };
  const left = [
    { state: "pending" },
    { state: "pending", spec: { array: { count: 2 } } },
    { state: "pending", spec: { array: { count: 2 } }, array: { count: 2 } },
  ];
  const handle = {
    query: () => Promise.resolve({ jobId: "a", attempts: [], ...left.shift() }),
    executeUpdate: () => Promise.resolve(order),
  };
  const client = {
    workflow: { getHandle: () => handle },
    withDeadline: (_deadline: number, call: () => Promise<unknown>) => call(),
  };
  const job = openJob(client as unknown as Client, "a", "ada");
  expect(await job.cancelTasks("0")).toEqual(order);
  expect(left).toEqual([]);
});
