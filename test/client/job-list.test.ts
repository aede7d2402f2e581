/** @file Listing: which query visibility is asked, and what is made of its answer and of the fleet's ledger. */

import type { Client } from "@temporalio/client";
import { TypedSearchAttributes } from "@temporalio/common";
import { describe, expect, it } from "vitest";
import { visibilityQuery, type JobFilter } from "../../client/job-filter.ts";
import { listedJob, listJobs } from "../../client/job-list.ts";
import type { JobRow } from "../../client/job-rows.ts";
import {
  CLASS_KEY,
  CLUSTER_KEY,
  GPUS_KEY,
  LABELS_KEY,
  NAME_KEY,
  STATE_KEY,
  TENANT_KEY,
} from "../../client/search-keys.ts";
import {
  clusterId,
  hostId,
  jobId,
  leaseId,
  runId,
  tenantId,
  token,
} from "../../domain/values/ids.ts";
import { ARRAY_MEMO, CELL_MEMO, WAITS_MEMO } from "../../protocol/messages.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { gbps, gib, ms } from "../../domain/values/units.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { listingServer } from "../support/listing-server.ts";

const ANYWHERE = { isSameHost: false, isSameFabric: false };

const BASE = 'WorkflowType = "job" AND (OrbweaverFleet = "default" OR OrbweaverHome = "default")';

it.each<[JobFilter, string]>([
  [{}, `${BASE} AND ExecutionStatus = "Running"`],
  [{ all: true }, BASE],
  [{ state: "failed" }, `${BASE} AND OrbweaverState = "failed"`],
  [
    { state: "pending" },
    `${BASE} AND ExecutionStatus = "Running" AND (OrbweaverState = "pending" OR OrbweaverState = "running")`,
  ],
  [{ state: "held" }, `${BASE} AND ExecutionStatus = "Running" AND OrbweaverState = "held"`],
  [
    { class: "training", tenant: "t", cluster: "c", all: true },
    `${BASE} AND OrbweaverClass = "training" AND OrbweaverTenant = "t" AND OrbweaverCluster = "c"`,
  ],
  [
    { state: ["held", "pending"] },
    `${BASE} AND ExecutionStatus = "Running" AND (OrbweaverState = "held" OR OrbweaverState = "pending" OR OrbweaverState = "running")`,
  ],
  [
    { state: ["failed", "held"] },
    `${BASE} AND (OrbweaverState = "failed" OR OrbweaverState = "held")`,
  ],
  [
    { all: true, user: "ada", labels: ["team=vision", "sweep"] },
    `${BASE} AND OrbweaverUser = "ada" AND OrbweaverLabels = "team=vision"`,
  ],
  [
    { all: true, name: "probe-*7" },
    `${BASE} AND (OrbweaverName STARTS_WITH "probe-" OR WorkflowId STARTS_WITH "probe-")`,
  ],
  [{ all: true, name: "a" }, `${BASE} AND (OrbweaverName = "a" OR WorkflowId = "a")`],
  [{ all: true, name: "*a", gpuType: "H100" }, BASE],
  [
    { all: true, submittedBeforeMs: 2_000, submittedAfterMs: 1_000 },
    `${BASE} AND StartTime <= "1970-01-01T00:00:02.000Z" AND StartTime >= "1970-01-01T00:00:01.000Z"`,
  ],
])("the filter %j asks visibility %s", (filter, wantQuery) => {
  expect(visibilityQuery("default", filter)).toBe(wantQuery);
});

it.each(["a b=c", "=c", "a=", 'a="', "a=b=c"])("%j is no label to search for", (label) => {
  expect(() => visibilityQuery("default", { labels: [label] })).toThrow(
    expect.objectContaining({ code: "BAD_INPUT" }),
  );
});

it.each(['a"b', "a'b", "a\\b"])("a value like %j cannot leave its quotes", (tenant) => {
  expect(() => visibilityQuery("default", { tenant })).toThrow(
    expect.objectContaining({ code: "BAD_INPUT" }),
  );
});

function info(more: { status: string; state: string }): JobRow {
  const { status, state } = more;
  return {
    workflowId: "a",
    status: { name: status },
    startTime: new Date(1_000),
    typedSearchAttributes: new TypedSearchAttributes([
      { key: CLASS_KEY, value: "training" },
      { key: TENANT_KEY, value: "t" },
      { key: STATE_KEY, value: state },
      { key: GPUS_KEY, value: 8 },
      { key: CLUSTER_KEY, value: ["c"] },
    ]),
  };
}

it.each([
  ["RUNNING", "held", "held"],
  ["RUNNING", "something new", "pending"],
  ["COMPLETED", "completed", "completed"],
  ["TERMINATED", "running", "terminated"],
  ["TIMED_OUT", "running", "timed-out"],
  ["CANCELLED", "running", "cancelled"],
])("a workflow that is %s and said %j is %s", (status, state, wantState) => {
  expect(listedJob(info({ status, state })).state).toBe(wantState);
});

const payload = (type: string, value: unknown) => ({
  metadata: { type: Buffer.from(type) },
  data: Buffer.from(JSON.stringify(value)),
});

/** As the server answers. */
function raw({
  id,
  status = 1,
  state = "pending",
  closedAtS,
  name,
  labels,
  memo = {},
}: {
  id: string;
  status?: number;
  state?: unknown;
  closedAtS?: number;
  name?: string;
  labels?: string[];
  memo?: Record<string, unknown>;
}) {
  return {
    execution: { workflowId: id },
    status,
    startTime: { seconds: 1, nanos: 0 },
    ...(closedAtS !== undefined && { closeTime: { seconds: closedAtS, nanos: 0 } }),
    searchAttributes: {
      indexedFields: {
        [CLASS_KEY.name]: payload("Keyword", "training"),
        [STATE_KEY.name]: payload("Keyword", state),
        [GPUS_KEY.name]: payload("Int", 8),
        [CLUSTER_KEY.name]: payload("KeywordList", ["c"]),
        ...(name !== undefined && { [NAME_KEY.name]: payload("Keyword", name) }),
        ...(labels !== undefined && { [LABELS_KEY.name]: payload("KeywordList", labels) }),
      },
    },
    memo: {
      fields: Object.fromEntries(
        Object.entries(memo).map(([name, value]) => [name, payload("json", value)]),
      ),
    },
  };
}

const fakeClient = (...server: Parameters<typeof listingServer>): Client =>
  listingServer(...server) as unknown as Client;

describe("rows of visibility", () => {
  const listed = async (pages: readonly (readonly object[])[], filter: JobFilter = {}) => {
    const jobs = [];
    const known = { fleet: "default", filter, ledger: () => Promise.resolve(undefined) };
    for await (const page of listJobs(fakeClient(pages), known)) jobs.push(...page);
    return jobs;
  };

  it("come page by page, up to the limit", async () => {
    const pages = [[raw({ id: "a" }), raw({ id: "b" })], [raw({ id: "c" })]];
    expect((await listed(pages)).map(({ jobId: id }) => id)).toEqual(["a", "b", "c"]);
    expect((await listed(pages, { limit: 1 })).map(({ jobId: id }) => id)).toEqual(["a"]);
  });

  it("are asked for a page ahead, but not beyond the limit", async () => {
    const pages = [[raw({ id: "a" })], [raw({ id: "b" })], [raw({ id: "c" })]];
    const read = async (limit?: number): Promise<readonly number[]> => {
      const asked: number[] = [];
      const filter = limit === undefined ? {} : { limit };
      const known = { fleet: "f", filter, ledger: () => Promise.resolve(undefined) };
      const jobs = listJobs(fakeClient(pages, asked), known);
      await jobs.next();
      const atFirst = asked.length;
      for await (const _ of jobs);
      return [atFirst, asked.length];
    };
    expect(await read()).toEqual([2, 3]);
    expect(await read(1)).toEqual([1, 1]);
    expect(await read(2)).toEqual([2, 2]);
  });

  it("have attributes, times and the memo's entries for lists; one of a strange form counts for nothing", async () => {
    const tasks = { ended: 1, count: 2 };
    const [job, strange] = await listed([
      [
        raw({ id: "a", closedAtS: 3, status: 4, memo: { [ARRAY_MEMO]: tasks, other: "x" } }),
        raw({ id: "b", state: { held: true } }),
      ],
    ]);
    expect(job).toMatchObject({
      ...{ state: "cancelled", class: "training", gpus: 8, clusters: ["c"], tasks },
      ...{ submittedAtMs: 1_000, endedAtMs: 3_000 },
    });
    expect(strange).toMatchObject({ jobId: "b", state: "pending" });
  });

  it("of what is no job are left out, and memos that nobody can read; the others are listed", async () => {
    const unreadable = { metadata: {}, data: Buffer.from("{") };
    const memos = [
      { [WAITS_MEMO]: { code: "WaitingForGpus" } },
      { [WAITS_MEMO]: { code: "constructor", message: "", numbers: {}, holders: [], wakeOn: [] } },
      { [WAITS_MEMO]: 7, [CELL_MEMO]: "eu", [ARRAY_MEMO]: { count: "many" } },
      { [CELL_MEMO]: { from: "a b", to: "", code: 1 }, [ARRAY_MEMO]: [] },
    ];
    const rows = [
      ...["", "a b", "a\nvictim", "\u2028"].map((id) => raw({ id })),
      ...memos.map((memo, at) => raw({ id: `memo-${String(at)}`, memo })),
      { ...raw({ id: "closed" }), memo: { fields: { [WAITS_MEMO]: unreadable } } },
    ];
    const jobs = await listed([[...rows, raw({ id: "good" })]]);
    expect(jobs.map(({ jobId: id }) => id)).toEqual([
      ...memos.map((_, at) => `memo-${String(at)}`),
      "closed",
      "good",
    ]);
    for (const job of jobs)
      for (const name of ["pending", "moved", "tasks"]) expect(job).not.toHaveProperty(name);
  });
});

describe("with the fleet's ledger", () => {
  const lease = {
    id: leaseId(token(1)),
    token: token(1),
    jobId: jobId("run"),
    runId: runId("r"),
    seq: 1,
    class: "training" as const,
    tenant: tenantId("t"),
    gpus: [{ host: hostId("c", "h"), mask: 0b111 }],
    grantedAtMs: 5_000,
    requestedAtMs: 1_000,
    state: "held" as const,
  };
  const reason = {
    code: "WaitingForGpus",
    message: "",
    numbers: {},
    holders: [],
    wakeOn: ["lease-released"],
  } as const;
  const ledger = {
    ...emptyLedger({ clusters: [], links: [], tenants: [] }),
    leases: new Map([[lease.id, lease]]),
    reasons: new Map([[jobId("wait"), reason]]),
  };
  const { RUNNING, TERMINATED } = { RUNNING: 1, TERMINATED: 5 }; // of WorkflowExecutionStatus
  const executions = [
    raw({ id: "run", status: RUNNING, state: "running" }),
    raw({ id: "wait", status: RUNNING, state: "pending" }),
    raw({ id: "new", status: RUNNING, state: "pending" }),
    raw({ id: "old", status: TERMINATED, state: "running", closedAtS: 9 }),
  ];
  const client = fakeClient([executions]);

  async function list(filter: JobFilter, more: Partial<Ledger> = {}) {
    const jobs = [];
    const known = {
      ...{ fleet: "default", filter },
      ledger: () => Promise.resolve({ ...ledger, ...more }),
    };
    for await (const page of listJobs(client, known)) jobs.push(...page);
    return jobs;
  }

  it("tells where a job runs and why one waits", async () => {
    const [running, waiting, fresh, old] = await list({ all: true });
    expect(running).toMatchObject({ hosts: ["c/h"], gpus: 3, grantedAtMs: 5_000 });
    expect(waiting).toMatchObject({ pending: reason, gpus: 8 });
    expect(fresh).not.toHaveProperty("pending");
    expect(old).toMatchObject({ state: "terminated", endedAtMs: 9_000, hosts: [] });
  });

  it("tells of a gang that is smaller than asked for, and of one that is to give way", async () => {
    const gang = { gpus: 8, min: 1, timeoutMs: ms(0) };
    const constraints = ANYWHERE;
    const eviction = { forJob: jobId("infer"), atMs: 1, lostGpuSeconds: 1, isSent: true } as const;
    const yielding = {
      ...lease,
      terms: { priority: 0, submittedAtMs: 0, gang, constraints },
      eviction,
    };
    const [running] = await list({ all: true }, { leases: new Map([[lease.id, yielding]]) });
    expect(running).toMatchObject({ gpus: 3, gpusRequested: 8, preemptedFor: "infer" });
  });

  it("knows that a job which wrote that it runs waits again", async () => {
    const request: Partial<PendingRequest> = { priority: 7, constraints: ANYWHERE };
    const requests = new Map([[jobId("run"), request as PendingRequest]]);
    const waiting = { leases: new Map(), requests };
    expect((await list({ state: "pending" }, waiting)).map(({ jobId: id }) => id)).toEqual([
      "run",
      "wait",
      "new",
    ]);
    expect(await list({ state: "running" }, waiting)).toEqual([]);
  });

  it("finds by the type of GPUs that a job holds, or waits for by name", async () => {
    const cluster = {
      ...{ id: clusterId("c"), site: "s", jurisdiction: "EU", fabricGbps: gbps(1) },
      hosts: [{ id: hostId("c", "h"), gpuCount: 8, gpuType: "H100", memoryGiB: gib(80) }],
    };
    // A list reads of the shape which host has which GPUs.
    const shape = { clusters: [cluster], links: [], tenants: [] } as unknown as Ledger["shape"];
    const request: Partial<PendingRequest> = {
      priority: 7,
      constraints: { ...ANYWHERE, gpuTypes: ["A100"] },
    };
    const requests = new Map([[jobId("wait"), request as PendingRequest]]);
    const [running] = await list({ gpuType: "H100" }, { shape, requests });
    expect(running).toMatchObject({ jobId: "run", gpuTypes: ["H100"] });
    expect(await list({ gpuType: "A100" }, { shape, requests })).toMatchObject([
      { jobId: "wait", gpuTypes: ["A100"], priority: 7 },
    ]);
    expect(await list({ gpuType: "B200" }, { shape, requests })).toEqual([]);
  });

  it.each<[JobFilter, readonly string[]]>([
    [{ labels: ["team=vision"] }, ["a-1"]],
    [{ labels: ["team"] }, ["a-1", "b-2"]],
    [{ labels: ["team", "x=y"] }, ["b-2"]],
    [{ name: "a*" }, ["a-1"]],
    [{ name: "?-2" }, ["b-2"]],
    [{ name: "train*" }, ["b-2"]],
    [{ name: "a.1" }, []],
  ])("checks %j again on the answer", async (filter, wantIds) => {
    const labelled = fakeClient([
      [
        raw({ id: "a-1", labels: ["team=vision"] }),
        raw({ id: "b-2", name: "trainer", labels: ["team=Vision", "x=y"] }),
      ],
    ]);
    const ids = [];
    const asked = { ...{ fleet: "default", filter }, ledger: () => Promise.resolve(undefined) };
    for await (const page of listJobs(labelled, asked)) ids.push(...page.map((job) => job.jobId));
    expect(ids).toEqual(wantIds);
  });

  it("leaves out whose stale attribute alone fits, and stops at the limit", async () => {
    expect((await list({ state: "running" })).map((job) => job.jobId)).toEqual(["run"]);
    expect(await list({ limit: 2 })).toHaveLength(2);
    expect(await list({ limit: 0 })).toEqual([]);
  });
});
