/** @file The first request of a job: what of its patience is left when its first task runs; and inputs that are refused for how they came. */

import type { Client } from "@temporalio/client";
import { expect, it } from "vitest";
import { createJobActivities } from "../../activities/job-activities.ts";
import { jobId, runId } from "../../domain/values/ids.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";

const FILE = {
  name: "patient",
  gang: 1,
  run: { command: ["true"] },
  fleets: ["eu", "us"],
  patience: "5m",
};

it.each([
  { lateMs: 0, want: 300_000 },
  { lateMs: 120_000, want: 180_000 },
  { lateMs: 3_600_000, want: 0 },
])(
  "$lateMs ms after its submission $want ms of five minutes are left",
  async ({ lateMs, want }) => {
    const said: unknown[] = [];
    const signal = (_name: string, entries: readonly unknown[]): Promise<void> => {
      said.push(...entries);
      return Promise.resolve();
    };
    // What the first request touches of a client.
    const describe = () => Promise.resolve({ memo: {} });
    const client = { workflow: { getHandle: () => ({ signal, describe }) } } as unknown as Client;
    const entry = {
      fleetWorkflowId: fleetWorkflowId("eu"),
      jobId: jobId("patient"),
      runId: runId("run-1"),
      submittedAtMs: 1_000_000,
      nowMs: 1_000_000 + lateMs,
    };
    expect(await createJobActivities(client).admit(FILE, entry)).toMatchObject({
      kind: "admitted",
      runId: entry.runId,
    });
    expect(said).toMatchObject([
      { kind: "request", request: { patienceMs: want, requestedAtMs: entry.nowMs } },
    ]);
  },
);

it.each([
  ["open", 1_000, /^the job's input is refused: it is not encrypted/],
  ["unbound", 1_000, /not bound to this workflow/],
  ["unreadable", 999, /made for another workflow/],
] as const)("a job whose input came %s at %d is refused", async (flaw, submittedAtMs, want) => {
  const keys = { isBinding: () => true, sinceMs: () => 1_000 };
  const entry = {
    ...{ fleetWorkflowId: fleetWorkflowId("eu"), jobId: jobId("open"), runId: runId("run-1") },
    ...{ submittedAtMs, nowMs: 2_000, flaw },
  };
  // No fleet is asked, and none is told.
  expect(await createJobActivities({} as Client, keys).admit(FILE, entry)).toMatchObject({
    ...{ kind: "refused", code: "NOT_ALLOWED" },
    message: expect.stringMatching(want),
  });
});
