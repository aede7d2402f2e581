/** Whether an open session goes on, by what its service hears of rights and of the job. */

import { expect, it } from "vitest";
import { sessionRefusal } from "../../api/session-review.ts";
import type { ServedFleet } from "../../api/route.ts";
import { FLEET_KEY, TENANT_KEY } from "../../client/search-keys.ts";
import type { Access } from "../../domain/fleet/access-schema.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { JOB_WORKFLOW } from "../../protocol/messages.ts";

const ACCESS = {
  principals: [{ name: "ada", user: "ada" }],
  grants: [{ to: ["ada"], role: "user", tenants: ["research"], jobs: "tenant" }],
} as unknown as Access;
const SPEC = { tenant: "research", class: "training", priority: 0, constraints: {} };
const UNBELIEVED = new OrbweaverError("NOT_ALLOWED", "the answer is not believed");
const UNREACHED = new OrbweaverError("NO_CONNECTION", "no answer");

function review(access: Access, view: object | Error, fleet = "eu"): Promise<string | undefined> {
  const said = new Map<unknown, string>([
    [FLEET_KEY, fleet],
    [TENANT_KEY, "research"],
  ]);
  const job = { type: JOB_WORKFLOW, memo: {}, startTime: new Date(0), typedSearchAttributes: said };
  const served = {
    ...{ fleet: "eu", ownKeys: () => [] },
    client: {
      job: () => ({
        view: () => (view instanceof Error ? Promise.reject(view) : Promise.resolve(view)),
      }),
    },
    temporal: {
      withDeadline: (_untilMs: number, ask: () => Promise<unknown>) => ask(),
      workflow: { getHandle: () => ({ describe: () => Promise.resolve(job) }) },
    },
  } as unknown as ServedFleet;
  const principal = { name: "ada", via: "socket", isOwner: false, groups: [] };
  const askAgain = (): Promise<typeof principal> => Promise.resolve(principal);
  return sessionRefusal(served, access, { principal, job: "train", askAgain });
}

it.each<readonly [string, object | Error]>([
  ["its owner may still open it", { spec: SPEC }],
  ["the job's answer is not believed", UNBELIEVED],
  ["the job does not answer", UNREACHED],
  ["the job has not been read again", {}],
])("goes on where %s", async (_name, view) => {
  expect(await review(ACCESS, view)).toBeUndefined();
});

it.each<readonly [string, RegExp, Access, object, string]>([
  ["the grant is gone", /ada/, { ...ACCESS, grants: [] }, { spec: SPEC }, "eu"],
  ["the name is gone", /no ada any more/, { ...ACCESS, principals: [] }, { spec: SPEC }, "eu"],
  ["the job has another tenant now", /other/, ACCESS, { spec: { ...SPEC, tenant: "other" } }, "eu"],
  ["the job is gone", /no job train/, ACCESS, { spec: SPEC }, "us"],
])("ends where %s", async (_name, want, access, view, fleet) => {
  expect(await review(access, view, fleet)).toMatch(want);
});
