/** @file Jobs are asked under the name of the run that is open, and one that was reset after it was called in, or asked its fleet, is asked anew; with a stand-in for Temporal's client. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { expect, test } from "vitest";
import { createFleetActivities, type FleetPorts } from "../../activities/fleet-activities.ts";
import { createLobbyActivities } from "../../activities/lobby-activities.ts";
import { askRun } from "../../activities/open-run.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import { jobId, leaseId, runId, tenantId, token } from "../../domain/values/ids.ts";

const JOB = jobId("a");

/** A server with one job, whose run is open under that name; undefined: it has ended. */
function serverWith(open: string | undefined) {
  const heard: unknown[] = [];
  const gone = (id: string, run?: string) =>
    Promise.reject(new WorkflowNotFoundError("no such run", id, run));
  const getHandle = (workflowId: string, run?: string) => ({
    workflowId,
    signal: (name: string, value: unknown) => {
      if (open === undefined || (run !== undefined && run !== open)) return gone(workflowId, run);
      heard.push([name, value]);
      return Promise.resolve();
    },
    describe: () =>
      open === undefined || workflowId !== JOB
        ? gone(workflowId, run)
        : Promise.resolve({ status: { name: "RUNNING" }, runId: open }),
  });
  return { client: { workflow: { getHandle } } as unknown as Client, heard };
}

const LEASES = [leaseId(token(7))];

test.each([
  ["the run that is open", "run-2"],
  ["the run after it, where it was reset meanwhile", "run-1"],
])("asks %s", async (_what, listed) => {
  const { client, heard } = serverWith("run-2");
  await askRun(client, JOB, { runId: listed, leases: LEASES });
  expect(heard).toEqual([["assert", { leases: LEASES, runId: "run-2" }]]);
});

test("asks nobody where the job has ended", async () => {
  const { client, heard } = serverWith(undefined);
  await askRun(client, JOB, { runId: "run-1" });
  expect(heard).toEqual([]);
});

const callIn = (client: Client) =>
  createLobbyActivities(client, { checkWords: () => Promise.resolve({ refused: [] }) }).callIn(
    [{ jobId: JOB, runId: runId("run-1"), seq: 2, credit: 9, round: 0 }],
    "orbweaver-fleet-eu",
  );

test("a called job that was reset gives its credit back, and its next run is asked what it wants", async () => {
  const { client, heard } = serverWith("run-2");
  expect(await callIn(client)).toEqual({ gone: [9] });
  expect(heard).toEqual([["assert", { leases: [], runId: "run-2" }]]);
});

test("a called job that has ended gives its credit back", async () => {
  const { client, heard } = serverWith(undefined);
  expect(await callIn(client)).toEqual({ gone: [9] });
  expect(heard).toEqual([]);
});

const LEASE: Lease = {
  id: leaseId(token(7)),
  token: token(7),
  jobId: JOB,
  runId: runId("run-1"),
  seq: 1,
  class: "training",
  tenant: tenantId("red"),
  gpus: [],
  grantedAtMs: 0,
  requestedAtMs: 0,
  state: "granted",
};

/** What is granted to the job's first run. */
const deliver = (client: Client) =>
  createFleetActivities({
    client,
    tickets: { launch: () => "a ticket", stop: () => "a ticket" },
    signatures: { firstStart: (_: string, start: string) => start },
  } as unknown as FleetPorts).deliver({
    grants: [{ lease: LEASE, reason: "it fits", agents: [] }],
    pending: [],
  });

test("a grant to a job that was reset to a task after its request goes back, and its next run is asked what it wants", async () => {
  const { client, heard } = serverWith("run-2");
  expect(await deliver(client)).toEqual({ accepted: [], gone: [LEASE.id] });
  expect(heard).toEqual([["assert", { leases: [], runId: "run-2" }]]);
});

test("a grant to a job that has ended goes back", async () => {
  const { client, heard } = serverWith(undefined);
  expect(await deliver(client)).toEqual({ accepted: [], gone: [LEASE.id] });
  expect(heard).toEqual([]);
});
