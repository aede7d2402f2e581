/** @file The jobs that a job waits for are shown to those alone who may see them: by `status`, by `explain` and in lists. */

import { expect, it } from "vitest";
import type { Principal, Rights } from "../../access/principal.ts";
import { JOB_ROUTES } from "../../api/job-routes.ts";
import type { Call } from "../../api/route.ts";
import type { ListedJob } from "../../client/index.ts";
import { FLEET_KEY, TENANT_KEY } from "../../client/search-keys.ts";
import type { ServiceJob } from "../../client/service-client.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { jobId } from "../../domain/values/ids.ts";
import { waitingReason } from "../../machines/job/predecessors.ts";
import { JOB_WORKFLOW, type PredecessorView } from "../../protocol/messages.ts";

const TENANT_OF = new Map([
  ["follower", "vision"],
  ["open", "vision"],
  ["secret", "speech"],
]);
const AFTER: readonly PredecessorView[] = [
  { job: jobId("open"), on: "success", state: "running", verdict: "open" },
  { job: jobId("secret"), on: "end", state: "held", verdict: "open" },
];
const PENDING = waitingReason(AFTER);
const PAGE = {
  view: {
    jobId: jobId("follower"),
    fleet: "f",
    state: "pending",
    submittedAtMs: 0,
    attempts: [],
    after: AFTER,
    pending: PENDING,
    spec: { after: AFTER.map(({ job, on }) => ({ job, on })), run: { env: {} } },
  },
  ending: {
    isCancelAsked: false,
    outcome: {
      kind: "failed",
      message: "job follower was to wait until secret ends",
      failure: { code: "DEPENDENCY_FAILED", attempts: 0 },
    },
  },
} as unknown as ServiceJob;
const LINE: ListedJob = {
  jobId: jobId("follower"),
  state: "pending",
  tenant: "vision",
  clusters: [],
  hosts: [],
  submittedAtMs: 0,
  pending: PENDING,
};

const BOB: Principal = { name: "bob", via: "socket", isOwner: false, groups: [] };
const OF_VISION: Rights = {
  roles: ["user"],
  grants: [{ to: ["bob"], role: "user", tenants: ["vision"], jobs: "tenant" }],
};

/** No more of the service is asked by these routes. */
async function asked(id: string, rights: Rights, line: ListedJob = LINE): Promise<unknown> {
  const describe = (job: string): Promise<unknown> => {
    const tenant = TENANT_OF.get(job);
    if (tenant === undefined) return Promise.reject(new OrbweaverError("NOT_FOUND", job));
    const said = new Map<unknown, string>([
      [FLEET_KEY, "f"],
      [TENANT_KEY, tenant],
    ]);
    const startTime = new Date(0);
    return Promise.resolve({
      type: JOB_WORKFLOW,
      memo: {},
      startTime,
      typedSearchAttributes: said,
    });
  };
  const client = {
    job: () => ({
      view: () => Promise.resolve(PAGE.view),
      ending: () => Promise.resolve(PAGE.ending),
      explain: () => Promise.resolve(PAGE),
    }),
    list: () => [line],
  };
  const temporal = {
    withDeadline: (_untilMs: number, ask: () => Promise<unknown>) => ask(),
    workflow: { getHandle: (job: string) => ({ describe: () => describe(job) }) },
  };
  const call = {
    caller: { principal: BOB, rights },
    served: { fleet: "f", temporal, client, ownKeys: () => [] },
    job: "follower",
    query: {},
    gone: new AbortController().signal,
  } as unknown as Call;
  const found = JOB_ROUTES.find((route) => route.id === id);
  return await found?.answer(call, undefined as never);
}

it.each(["status", "explain"])("%s names no job that the caller may not see", async (id) => {
  const answer = await asked(id, OF_VISION);
  expect(JSON.stringify(answer)).not.toMatch(/secret|held/);
  expect(answer).toMatchObject({
    view: {
      after: [AFTER[0], { job: "(hidden)", on: "end", verdict: "open" }],
      spec: { after: [{ job: "open" }, { job: "(hidden)" }] },
      pending: { message: "waits for 2 other jobs", holders: ["open"], numbers: { open: 2 } },
    },
    ending: { outcome: { failure: { code: "DEPENDENCY_FAILED" } } },
  });
});

it("a list names none, not even of those beyond the ones that a reason has", async () => {
  const answer = await asked("list", OF_VISION);
  expect(JSON.stringify(answer)).not.toMatch(/secret|held/);
  expect(answer).toMatchObject({ jobs: [{ pending: { holders: ["open"] } }] });
  const many = { ...PENDING, numbers: { open: 9, met: 0 }, holders: [jobId("open")] };
  expect(await asked("list", OF_VISION, { ...LINE, pending: many })).toMatchObject({
    jobs: [{ pending: { message: "waits for 9 other jobs" } }],
  });
});

it.each(["status", "explain"])("%s says all of them to a viewer of the fleet", async (id) => {
  const viewer: Rights = { roles: ["viewer"], grants: [{ to: ["bob"], role: "viewer" }] };
  expect(await asked(id, viewer)).toMatchObject({ view: { after: AFTER, pending: PENDING } });
});

it("a job that is gone is shown to the submitter of its follower alone", async () => {
  const gone = waitingReason([{ job: jobId("gone"), on: "end", verdict: "open" }]);
  const line = { ...LINE, pending: gone };
  expect(await asked("list", OF_VISION, line)).toMatchObject({
    jobs: [{ pending: { message: "waits for 1 other job", holders: [] } }],
  });
  expect(await asked("list", OF_VISION, { ...line, user: "bob" })).toMatchObject({
    jobs: [{ pending: gone }],
  });
});
