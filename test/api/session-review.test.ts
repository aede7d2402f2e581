/** Whether an open session goes on, by what its service hears of rights and of the job. */

import { mkdtempSync, rmSync } from "node:fs";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { signJob } from "../../access/job-proof.ts";
import { ownIdentity } from "../../access/own-identity.ts";
import { askedAgain, sessionRefusal } from "../../api/session-review.ts";
import type { ServedFleet } from "../../api/route.ts";
import { FLEET_KEY, TENANT_KEY } from "../../client/search-keys.ts";
import type { Access } from "../../domain/fleet/access-schema.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { JOB_WORKFLOW } from "../../protocol/messages.ts";
import { PROOF_MEMO } from "../../protocol/signed-job.ts";

const ACCESS = {
  principals: [{ name: "ada", user: "ada" }],
  grants: [{ to: ["ada"], role: "user", tenants: ["research"], jobs: "tenant" }],
} as unknown as Access;
const SPEC = { tenant: "research", class: "training", priority: 0, constraints: {} };
const UNBELIEVED = new OrbweaverError("NOT_ALLOWED", "the answer is not believed");
const UNREACHED = new OrbweaverError("NO_CONNECTION", "no answer");

interface Opened {
  readonly fleet?: string;
  readonly via?: string;
  /** Who is at the other end now. */
  readonly sender?: string | { readonly name: string };
  /** The signature in the memo of the job, and the keys that the service stands by. */
  readonly proof?: string;
  readonly keys?: readonly string[];
}

function review(
  access: Access,
  view: object | Error,
  { fleet = "eu", via = "socket", sender = { name: "ada" }, proof, keys = [] }: Opened = {},
): Promise<string | undefined> {
  const said = new Map<unknown, string>([
    [FLEET_KEY, fleet],
    [TENANT_KEY, "research"],
  ]);
  const memo = { [PROOF_MEMO]: proof };
  const job = { type: JOB_WORKFLOW, memo, startTime: new Date(0), typedSearchAttributes: said };
  const served = {
    ...{ fleet: "eu", ownKeys: () => keys },
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
  const principal = { name: "ada", via, isOwner: false, groups: [] };
  const askAgain = (): Promise<string | typeof principal> =>
    Promise.resolve(typeof sender === "string" ? sender : { ...principal, ...sender });
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
  expect(await review(access, view, { fleet })).toMatch(want);
});

it.each<readonly [string, Opened, RegExp | undefined]>([
  ["is good", {}, undefined],
  ["has expired", { sender: "its certificate has expired" }, /has expired/],
  ["was revoked", { sender: "its certificate has been revoked" }, /been revoked/],
  ["is another's now", { sender: { name: "bob" } }, /is bob's now/],
])("of a certificate that %s", async (_name, opened, want) => {
  const said = await review(ACCESS, { spec: SPEC }, { via: "certificate", ...opened });
  if (want === undefined) expect(said).toBeUndefined();
  else expect(said).toMatch(want);
});

it("of a certificate goes on while its connection is gone, and until its client comes back by another", async () => {
  const ada = { name: "ada", via: "certificate", isOwner: false, groups: [] };
  const senderOf = (): Promise<string> => Promise.resolve("a client certificate is missing");
  const asked = async (socket: Socket) => await askedAgain(ada, { socket, senderOf })();
  const socket = new Socket();
  expect(await asked(socket)).toMatch(/missing/);
  socket.destroy();
  expect(await asked(socket)).toEqual(ada);
});

it("ends where the key that has signed its job was revoked", async () => {
  const dir = mkdtempSync(join(tmpdir(), "orbweaver-review-"));
  const api = ownIdentity({ ORBWEAVER_IDENTITY: join(dir, "api.pem") });
  rmSync(dir, { recursive: true });
  const proof = signJob({ jobId: "train", content: {} }, { ...api, name: "ada" }, 0);
  const grants = [{ to: ["ada"], role: "user", tenants: ["research"] }];
  const access = { ...ACCESS, grants } as unknown as Access; // as far as it is read
  const reviewed = (keys: readonly string[]) => review(access, { spec: SPEC }, { proof, keys });
  expect(await reviewed([api.publicKey])).toBeUndefined();
  expect(await reviewed([])).toMatch(/submitter is not known/);
});
