/** @file `POST /v1/jobs/{job}/move`: operators alone move jobs, wherever to, and nothing is ordered or accepted before that is known. */

import { expect, it } from "vitest";
import type { Principal, Rights } from "../../access/principal.ts";
import { JOB_ROUTES } from "../../api/job-routes.ts";
import type { Call } from "../../api/route.ts";
import { FLEET_KEY, HOME_KEY, TENANT_KEY } from "../../client/search-keys.ts";
import { jobId } from "../../domain/values/ids.ts";
import { JOB_WORKFLOW } from "../../protocol/messages.ts";

const ADA: Principal = { name: "ada", via: "socket", isOwner: false, groups: [] };
const OPERATOR: Rights = { roles: ["operator"], grants: [] };
/** May change every job of the tenant. */
const USER: Rights = {
  roles: ["user"],
  grants: [{ to: ["ada"], role: "user", tenants: ["vision"], jobs: "tenant" }],
};
const HERE = { home: "eu", fleet: "eu", tenant: "vision" };

/** What the service, which is of fleet `eu`, did with the request; no more of it is asked by this route. */
async function moved(to: string, rights: Rights, at: Partial<typeof HERE> = {}) {
  const { home, fleet, tenant } = { ...HERE, ...at };
  const said = new Map<unknown, string>([
    [HOME_KEY, home],
    [FLEET_KEY, fleet],
    [TENANT_KEY, tenant],
  ]);
  const described = { type: JOB_WORKFLOW, memo: {}, startTime: new Date(0) };
  const done: string[] = [];
  const view = { spec: { tenant, class: "training", priority: 0, constraints: {} } };
  const call = {
    caller: { principal: ADA, rights },
    served: {
      fleet: "eu",
      ownKeys: () => [],
      client: {
        job: (job: string, by?: string) => ({
          view: () => Promise.resolve(view),
          move: (target: string) =>
            Promise.resolve(done.push(`${job} to ${target} by ${by ?? ""}`)),
        }),
      },
      temporal: {
        withDeadline: (_untilMs: number, ask: () => Promise<unknown>) => ask(),
        workflow: {
          getHandle: () => ({
            describe: () => Promise.resolve({ ...described, typedSearchAttributes: said }),
          }),
        },
      },
    },
    job: jobId("train"),
    body: { fleet: to },
    accept: () => void done.push("accepted"),
  } as unknown as Call;
  const route = JOB_ROUTES.find(({ id }) => id === "move");
  const why = await route?.answer(call, undefined as never).then(
    () => undefined,
    (error: unknown) => String(error),
  );
  return { done, why };
}

it("an operator moves a job, in its own name, after the audit has it", async () => {
  const { done, why } = await moved("us", OPERATOR);
  expect([why, done]).toEqual([undefined, ["accepted", "train to us by ada"]]);
});

it.each([
  ["to another fleet", "us", {}, "only operators may"],
  ["back to this fleet", "eu", { fleet: "us" }, "only operators may"],
  ["of another fleet into this one", "eu", { home: "us", fleet: "eu" }, "only operators may"],
  ["of another tenant", "us", { tenant: "speech" }, "may not change"],
  ["that is of neither", "eu", { home: "us", fleet: "us" }, "has no job"],
])("nobody else moves a job %s", async (_what, to, at, want) => {
  const { done, why } = await moved(to, USER, at);
  expect(why).toContain(want);
  expect(done).toEqual([]);
});

it("an operator of this fleet moves no job that is of others", async () => {
  expect(await moved("eu", OPERATOR, { home: "us", fleet: "us" })).toMatchObject({ done: [] });
});
