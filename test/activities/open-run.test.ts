/**
 * @file Jobs are asked under the name of the run that is open. Whoever takes something from a run that was reset, be it a call, a grant, a request or a lease, asks the next
 * run. With a stand-in for Temporal's client.
 */

import { asyncLocalStorage, type Context } from "@temporalio/activity";
import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { expect, test } from "vitest";
import { audit } from "../../activities/audit.ts";
import { createFleetActivities, type FleetPorts } from "../../activities/fleet-activities.ts";
import { createLobbyActivities } from "../../activities/lobby-activities.ts";
import { askRun } from "../../activities/open-run.ts";
import { repair } from "../../activities/repair.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import { jobId, leaseId, runId, tenantId, token } from "../../domain/values/ids.ts";
import { JOB_TASK_QUEUE, JOB_WORKFLOW } from "../../protocol/names.ts";

const JOB = jobId("a");

const KIND = {
  job: { type: JOB_WORKFLOW, taskQueue: JOB_TASK_QUEUE },
  "another type": { type: "anything", taskQueue: JOB_TASK_QUEUE },
  "a queue without a worker": { type: JOB_WORKFLOW, taskQueue: "nobody's" },
};

/** A server with one job, whose run is open under that name; undefined: it has ended. One that is not reached tells, and passes nothing on. */
function serverWith(open: string | undefined, isReached = true, kind: keyof typeof KIND = "job") {
  const heard: unknown[] = [];
  const gone = (id: string, run?: string) =>
    Promise.reject(new WorkflowNotFoundError("no such run", id, run));
  const getHandle = (workflowId: string, run?: string) => ({
    workflowId,
    signal: (name: string, value: unknown) => {
      if (open === undefined || (run !== undefined && run !== open)) return gone(workflowId, run);
      if (!isReached) return Promise.reject(new Error("the network is down"));
      heard.push([name, value]);
      return Promise.resolve();
    },
    describe: () =>
      open === undefined || workflowId !== JOB
        ? gone(workflowId, run)
        : Promise.resolve({ status: { name: "RUNNING" }, runId: open, ...KIND[kind] }),
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

const quietly = () => undefined;

const inActivity = <Value>(body: () => Value): Value =>
  asyncLocalStorage.run(
    { log: { info: quietly, warn: quietly }, heartbeat: quietly } as unknown as Context, // what is used of one
    body,
  );

/** Of a job that held a lease in its first run. */
const audited = (client: Client) =>
  inActivity(() => audit(client, { holders: [{ jobId: JOB, runId: runId("run-1") }], asked: [] }));

test("an audit reports a run that was reset once the next one has been asked: after that nobody asks it", async () => {
  const [reached, unreached] = [serverWith("run-2"), serverWith("run-2", false)];
  const closed = [{ jobId: JOB, runId: "run-1", isReset: true }];
  expect(await audited(reached.client)).toEqual({ closed });
  expect(reached.heard).toEqual([["assert", { leases: [], runId: "run-2" }]]);
  expect(await audited(unreached.client)).toEqual({ closed: [] });
});

test.each(["another type", "a queue without a worker"] as const)(
  "what a stranger has begun under the id of an ended job, of %s, keeps no lease",
  async (kind) => {
    const { client, heard } = serverWith("run-2", false, kind);
    expect(await audited(client)).toEqual({ closed: [{ jobId: JOB, runId: "run-1" }] });
    expect(await inActivity(() => repaired(client))).toEqual({
      denied: [{ lease: LEASE.id, hosts: [] }],
      closed: [{ jobId: JOB, runId: "run-1" }],
    });
    expect(heard).toEqual([]);
  },
);

test("an audit reports a run whose job has ended", async () => {
  const { client } = serverWith(undefined);
  expect(await audited(client)).toEqual({ closed: [{ jobId: JOB, runId: "run-1" }] });
});

/** The repair of what the job's first run waits for and holds. */
const repaired = (client: Client) =>
  repair(
    { client, tickets: { stop: () => "a ticket" } },
    {
      fleet: "eu",
      leases: [{ lease: LEASE.id, jobId: JOB, runId: runId("run-1"), token: token(7), hosts: [] }],
      requests: [{ jobId: JOB, runId: runId("run-1") }],
    },
  );

test("a repair takes nothing from a run that was reset before the next one was asked what it holds and wants", async () => {
  const [reached, unreached] = [serverWith("run-2"), serverWith("run-2", false)];
  const asking = inActivity(() => repaired(reached.client));
  expect(await asking).toEqual({
    denied: [{ lease: LEASE.id, hosts: [] }],
    closed: [{ jobId: JOB, runId: "run-1" }],
  });
  expect(reached.heard).toEqual([["assert", { leases: [], runId: "run-2" }]]);
  expect(await inActivity(() => repaired(unreached.client))).toEqual({ denied: [], closed: [] });
});

/** An order to the job's first run to give its lease up. */
const preempt = (client: Client) =>
  createFleetActivities({ client } as unknown as FleetPorts).deliver({
    grants: [],
    pending: [],
    evictions: [
      {
        jobId: JOB,
        runId: runId("run-1"),
        order: {
          seq: 1,
          lease: LEASE.id,
          forJob: jobId("b"),
          reason: "it comes first",
          graceMs: 1,
        },
      },
    ],
  });

test("a lease of a run that was reset goes for another job once the next run was asked what it wants", async () => {
  const [reached, unreached] = [serverWith("run-2"), serverWith("run-2", false)];
  expect((await preempt(reached.client)).evictions).toEqual({ sent: [], gone: [LEASE.id] });
  expect(reached.heard).toEqual([["assert", { leases: [], runId: "run-2" }]]);
  const told = await inActivity(() => preempt(unreached.client));
  expect(told.evictions).toEqual({ sent: [], gone: [] });
});
