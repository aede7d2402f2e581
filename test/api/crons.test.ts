/** @file Schedules before a server that plays Temporal: starts that are asked twice, limits, lists, and signatures that are believed no more. */

import { WorkflowNotFoundError } from "@temporalio/client";
import { defaultPayloadConverter, type Payload } from "@temporalio/common";
import { generateKeyPairSync } from "node:crypto";
import { beforeEach, describe, expect, it } from "vitest";
import { signJob } from "../../access/job-proof.ts";
import { publicKeyText, type Identity } from "../../access/own-identity.ts";
import type { Principal, Rights } from "../../access/principal.ts";
import { claimedStandingOrder, signStandingOrder } from "../../access/standing-order.ts";
import { cronStarter } from "../../api/cron-starts.ts";
import { deleteCron, listCrons, makeCron, outcomeOf } from "../../api/crons.ts";
import type { Caller, ServedFleet } from "../../api/route.ts";
import type { NewCron } from "../../client/cron-client.ts";
import { FLEET_KEY, TENANT_KEY } from "../../client/search-keys.ts";
import type { Access } from "../../domain/fleet/access-schema.ts";
import type { JobFile } from "../../domain/job/job-file.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import {
  cronScheduleId,
  type CronInput,
  type CronOutcome,
  type Overlap,
} from "../../protocol/cron.ts";
import { JOB_WORKFLOW } from "../../protocol/messages.ts";
import { PROOF_MEMO } from "../../protocol/signed-job.ts";

const RIGHTS: Rights = {
  roles: ["user"],
  grants: [{ to: ["ada", "bob"], role: "user", tenants: ["research"] }],
};
const ACCESS = { grants: RIGHTS.grants } as Access;
const AT_MS = Date.UTC(2031, 2, 4, 3);

const principalOf = (name: string, groups: readonly string[] = []): Principal => ({
  ...{ name, via: "token", isOwner: false, groups: [...groups] },
});
const callerOf = (name: string, groups?: readonly string[]): Caller => ({
  ...{ principal: principalOf(name, groups), rights: RIGHTS },
});

interface PlayedJob {
  readonly user: string;
  readonly startMs: number;
  hasEnded: boolean;
  isCancelled: boolean;
  readonly after: JobFile["after"];
}

/** As they lie at the server. */
interface PlayedSchedule {
  memo: Record<string, Payload>;
  input: Payload;
}
interface NewSchedule {
  readonly scheduleId: string;
  readonly memo: Readonly<Record<string, unknown>>;
  readonly action: { readonly args: readonly unknown[] };
}
const payloadOf = (value: unknown): Payload => defaultPayloadConverter.toPayload(value) as Payload;
const TORN: Payload = {
  metadata: { encoding: Buffer.from("json/plain") },
  data: Buffer.from("{"),
};
/** Schedules on one page of the server's list. */
const PAGE = 1_000;
const notFound = (): Error =>
  Object.assign(new Error("none"), { code: 5, details: "none", metadata: {} });

/** A server, and the service before it. */
function play() {
  let identity = newIdentity();
  let believed = [identity.publicKey];
  const jobs = new Map<string, PlayedJob>();
  /** As the server's list has them, which may be behind. */
  const listed: string[] = [];
  const schedules = new Map<string, PlayedSchedule>();
  const memoOf = (id: string) => ({ fields: schedules.get(id)?.memo });
  const described: string[] = [];
  const revoked = new Set<string>();
  let nowMs = AT_MS;
  /** Called at each cancel, before it is carried out. */
  const hooks = { onCancel: (_jobId: string): void => undefined };
  const put = (jobId: string, user: string, after?: JobFile["after"]): void => {
    nowMs += 1;
    const given = { user, startMs: nowMs, after };
    jobs.set(jobId, { ...given, hasEnded: false, isCancelled: false });
    listed.unshift(jobId);
  };
  const jobHandle = (jobId: string) => ({
    describe: () => {
      const job = jobs.get(jobId);
      if (job === undefined)
        return Promise.reject(new WorkflowNotFoundError("none", jobId, undefined));
      const said = new Map<unknown, string>([
        [FLEET_KEY, "f"],
        [TENANT_KEY, "research"],
      ]);
      const proof = signJob({ jobId, content: {} }, { ...identity, name: job.user }, AT_MS);
      const startTime = new Date(job.startMs);
      return Promise.resolve({
        ...{ type: JOB_WORKFLOW, memo: { [PROOF_MEMO]: proof }, startTime },
        typedSearchAttributes: said,
      });
    },
  });
  const client = {
    list: () =>
      listed.map((jobId) => ({
        jobId,
        user: jobs.get(jobId)?.user,
        submittedAtMs: jobs.get(jobId)?.startMs,
      })),
    job: (jobId: string) => ({
      cancel: () => {
        hooks.onCancel(jobId);
        const job = jobs.get(jobId);
        if (job === undefined || job.hasEnded)
          return Promise.reject(
            new OrbweaverError("NOT_ALLOWED", `job ${jobId} has already ended`),
          );
        job.isCancelled = true;
        return Promise.resolve();
      },
      ending: () =>
        Promise.resolve({
          ...(jobs.get(jobId)?.hasEnded === true && { outcome: { kind: "completed" } }),
        }),
    }),
    checkStarts: () => Promise.resolve(),
    submit: (file: JobFile, { idempotencyKey: key = "" }: { readonly idempotencyKey?: string }) => {
      put(key, "ada", file.after);
      return Promise.resolve({ jobId: key, isNew: true });
    },
  };
  const temporal = {
    withDeadline: (_untilMs: number, ask: () => Promise<unknown>) => ask(),
    workflow: { getHandle: jobHandle },
    options: {
      ...{ namespace: "default" },
      loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter },
    },
    workflowService: {
      listSchedules: ({ nextPageToken: token }: { readonly nextPageToken: Uint8Array }) => {
        const from = Number(Buffer.from(token).toString());
        const to = from + PAGE;
        const page = [...schedules.keys()].slice(from, to);
        return Promise.resolve({
          schedules: page.map((id) => ({ scheduleId: id, memo: memoOf(id) })),
          nextPageToken: Buffer.from(to < schedules.size ? String(to) : ""),
        });
      },
      describeSchedule: ({ scheduleId: id }: { readonly scheduleId: string }) => {
        described.push(id);
        const found = schedules.get(id);
        if (found === undefined) return Promise.reject(notFound());
        const info = { createTime: { seconds: AT_MS / 1_000 } };
        const schedule = { action: { startWorkflow: { input: { payloads: [found.input] } } } };
        return Promise.resolve({ schedule, info, memo: memoOf(id) });
      },
    },
    schedule: {
      create: ({ scheduleId, memo, action }: NewSchedule) => {
        const fields = Object.entries(memo).map(([name, value]) => [name, payloadOf(value)]);
        schedules.set(scheduleId, {
          memo: Object.fromEntries(fields) as Record<string, Payload>,
          input: payloadOf(action.args[0]),
        });
        return Promise.resolve();
      },
      getHandle: (id: string) => ({
        pause: () => Promise.resolve(),
        delete: () => Promise.resolve(schedules.delete(id)),
      }),
    },
  };
  const served = {
    ...{ fleet: "f", temporal, client, revoked },
    ownKeys: () => believed,
    signerOf: ({ name }: Principal) => ({ ...identity, name }),
    apiIdentity: () => identity,
  } as unknown as ServedFleet;
  return {
    ...{ served, jobs, listed, schedules, described, revoked, hooks, put },
    /** Two rotations: nothing that was signed before is believed. */
    rotateTwice: () => {
      identity = newIdentity();
      believed = [identity.publicKey];
    },
    argsOf: (cron: string): CronInput => {
      const input = schedules.get(cronScheduleId("f", cron))?.input ?? payloadOf({});
      return defaultPayloadConverter.fromPayload(input);
    },
  };
}

function newIdentity(): Identity {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  return { name: "api", file: "", privateKey, publicKey: publicKeyText(publicKey) };
}

let played = play();
beforeEach(() => {
  played = play();
});

const listed = async (caller: Caller) => (await listCrons(played.served, caller)).crons;

const JOB = { name: "job", tenant: "research", gang: 1, run: { command: "true" } } as JobFile;
const TERMS = { file: JOB, expression: "0 3 * * *", timeZone: "UTC", overlap: "skip" };
const deep = (levels: number): unknown => {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = [value];
  return value;
};
const make = (key: string, more: Partial<NewCron> = {}, caller = callerOf("ada")) =>
  makeCron(
    { caller, served: played.served, accept: () => undefined },
    { ...{ job: JOB, key, expression: "0 3 * * *", timeZone: "UTC", overlap: "skip" }, ...more },
  );
const remove = (cron: string, name: string) =>
  deleteCron({
    ...{ caller: callerOf(name), served: played.served, job: cron },
    accept: () => undefined,
  });

async function startWith(overlap: Overlap): Promise<() => Promise<CronOutcome>> {
  await make("nightly", { overlap });
  const audit = { add: () => undefined };
  const start = cronStarter({ served: played.served, access: () => ACCESS, audit });
  return () => start(played.argsOf("nightly"), AT_MS);
}
const openOnes = (count: number, user = "ada"): readonly string[] =>
  Array.from({ length: count }, (_, at) => {
    const id = `${user}-former-${String(at)}`;
    played.put(id, user);
    return id;
  });
const isCancelled = (id: string): boolean | undefined => played.jobs.get(id)?.isCancelled;
const jobIn = (outcome: CronOutcome): string => {
  if (outcome.kind !== "submitted") throw new Error(JSON.stringify(outcome));
  return outcome.jobId;
};
describe("a time that replaces", () => {
  it("cancels what it has to when it is asked again, and nothing that came after it", async () => {
    const start = await startWith("replace");
    const formers = openOnes(3);
    played.hooks.onCancel = () => {
      throw new Error("the service went away");
    };
    await expect(start()).rejects.toThrow("was not cancelled");
    played.hooks.onCancel = () => undefined;
    played.put("later", "ada");
    const [others = ""] = openOnes(1, "bob");
    const jobId = jobIn(await start());
    expect(formers.map(isCancelled)).toEqual([true, true, true]);
    expect([jobId, "later", others].map(isCancelled)).toEqual([false, false, false]);
    expect(played.jobs.get(jobId)?.after).toHaveLength(3);
  });
  it("takes one that ended meanwhile for replaced", async () => {
    const start = await startWith("replace");
    const [first = "", second = ""] = openOnes(2);
    played.hooks.onCancel = (id) => {
      const job = played.jobs.get(id);
      if (job !== undefined && id === second) job.hasEnded = true;
    };
    jobIn(await start());
    expect([first, second].map(isCancelled)).toEqual([true, false]);
  });
  it("replaces more than a job can wait for", async () => {
    const start = await startWith("replace");
    const formers = openOnes(40);
    const after = played.jobs.get(jobIn(await start()))?.after ?? [];
    expect(formers.every(isCancelled)).toBe(true);
    expect(after.map(({ job }) => job)).toEqual([...formers].reverse().slice(0, 32));
  });
});
it("times of `allow` are skipped while 100 jobs are open", async () => {
  const start = await startWith("allow");
  const formers = openOnes(100);
  expect(await start()).toEqual({ kind: "skipped", former: formers.at(-1) });
  played.listed.splice(0, 1);
  jobIn(await start());
});
it("nobody can know a job's id before, and take it", async () => {
  const start = await startWith("skip");
  const { number } = claimedStandingOrder(played.argsOf("nightly").order) ?? {};
  expect(jobIn(await start())).toBe(`nightly-20310304-030000-${number?.slice(0, 8) ?? ""}`);
});
describe("times", () => {
  it.each(["0 3 * * *", "*/5 0-6,22 1,15 JAN-MAR mon", "@hourly", "@yearly"])(
    "%s are taken",
    async (expression) => {
      expect(await make("when", { expression })).toEqual({ cron: "when", isNew: true });
    },
  );
  it.each([
    "@every 1s",
    "@every 1h",
    "* * * * * * *",
    "0 3 * * * 2031",
    "CRON_TZ=Asia/Tokyo 0 3 * * *",
    "TZ=UTC 3 * * *",
    "0 3 * * * # at night",
    "0 3 * *",
  ])("%s are not, and are named", async (expression) => {
    await expect(make("when", { expression })).rejects.toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringContaining(JSON.stringify(expression)) as string,
    });
  });
});
it("terms that came in the open start nothing once there are keys, unless the schedule is older, and leave a line in the audit", async () => {
  await make("nightly");
  const lines: unknown[] = [];
  const started = (sinceMs: number): Promise<CronOutcome> => {
    const start = cronStarter({
      ...{ served: played.served, access: () => ACCESS },
      audit: { add: (line) => lines.push(line) },
      keys: { isBinding: () => true, sinceMs: () => sinceMs },
    });
    return start(played.argsOf("nightly"), AT_MS, { flaw: "open", atMs: AT_MS });
  };
  const refused = { message: expect.stringContaining("it is not encrypted") as string };
  expect(await started(AT_MS)).toMatchObject({ ...refused, kind: "refused", code: "NOT_ALLOWED" });
  expect(lines).toMatchObject([{ act: "cron-start", who: "ada", verdict: "refused" }]);
  expect(await started(AT_MS + 1)).toMatchObject({ kind: "submitted" });
});
it("50 are the most of one user; those of others do not count, and one of before is no further one", async () => {
  for (let at = 0; at < 50; at += 1) await make(`of-ada-${String(at)}`);
  await expect(make("more")).rejects.toMatchObject({ code: "NOT_ALLOWED" });
  expect(await make("of-bob", {}, callerOf("bob"))).toMatchObject({ isNew: true });
  await expect(make("of-ada-0")).resolves.toBeDefined();
});
describe("what whoever reaches the frontend makes of schedules", () => {
  const operator: Caller = {
    ...{ principal: principalOf("oscar"), rights: { roles: ["operator"], grants: [] } },
  };
  const putThere = (cron: string, more: Partial<PlayedSchedule> = {}): void => {
    const memo = { fleet: payloadOf("f"), user: payloadOf("ada") };
    played.schedules.set(cronScheduleId("f", cron), { memo, input: TORN, ...more });
  };
  const forged = (fleet: string, cron: string): Payload => {
    const order = { fleet, cron, principal: principalOf("ada"), number: cron };
    return payloadOf({ cron, terms: TERMS, order: signStandingOrder(order, TERMS, newIdentity()) });
  };
  it.each<[string, Partial<PlayedSchedule>, object]>([
    ["a torn memo", { memo: { fleet: TORN, user: TORN } }, { problem: "unreadable" }],
    ["a torn input", {}, { problem: "unreadable" }],
    ["an input of another form", { input: payloadOf(null) }, { problem: "unreadable" }],
    ["no memo", { memo: {} }, { problem: "unreadable" }],
  ])("%s is a row for operators, who can delete it, and hides no other", async (_, more, row) => {
    await make("nightly");
    putThere("a-torn", more);
    expect(await listed(operator)).toMatchObject([
      { cron: "nightly", isProven: true },
      { cron: "a-torn", ...row },
    ]);
    expect(await listed(callerOf("ada"))).toMatchObject([{ cron: "nightly" }]);
    await expect(remove("a-torn", "ada")).rejects.toMatchObject({ code: "NOT_FOUND" });
    const call = { caller: operator, served: played.served, accept: () => undefined };
    await deleteCron({ ...call, job: "a-torn" });
    expect(played.schedules.size).toBe(1);
    expect(played.revoked.size).toBe(0);
  });
  it("a signed one with a torn memo, and one with a job file that is none any more, are still their user's", async () => {
    await make("nightly");
    const of = (order: string, file: unknown): Payload =>
      payloadOf({ ...played.argsOf("nightly"), order, terms: { ...TERMS, file } });
    const { order } = played.argsOf("nightly");
    putThere("bad-file", { input: of(order, { gang: "many" }) });
    putThere("deep-file", { input: of(order, { run: deep(1_000) }) });
    const signed = played.schedules.get(cronScheduleId("f", "nightly"));
    if (signed) signed.memo = { fleet: TORN, user: TORN, tenant: TORN };
    expect(await listed(operator)).toMatchObject([
      { cron: "nightly", isProven: true, user: "ada" },
      { cron: "bad-file", problem: "bad job file" },
      { cron: "deep-file", problem: "unreadable" },
    ]);
    await remove("bad-file", "ada");
    await remove("nightly", "ada");
    expect(played.revoked.size).toBe(1);
  });
  it("those of another fleet, whose name begins as this one's, are not this fleet's to see or delete", async () => {
    const input = forged("f-2", "nightly");
    putThere("2-nightly", { memo: { fleet: payloadOf("f-2") }, input });
    putThere("2-torn", { memo: { fleet: payloadOf("f-2") } });
    putThere("2-hidden", { memo: {}, input });
    expect(await listed(operator)).toEqual([]);
    const call = { caller: operator, served: played.served, accept: () => undefined };
    for (const job of ["2-nightly", "2-torn", "2-hidden"])
      await expect(deleteCron({ ...call, job })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
  it("five thousand that name a user, with its own label, hide none of what that user has, and the server is asked about twenty", async () => {
    await make("z-nightly");
    const label = played.schedules.get(cronScheduleId("f", "z-nightly"))?.memo["label"];
    const own = [...played.schedules];
    played.schedules.clear();
    for (let at = 0; at < 5_000; at += 1) {
      const memo = { fleet: payloadOf("f"), user: payloadOf("ada"), ...(label && { label }) };
      putThere(`forged-${String(at)}`, { memo, input: forged("f", `forged-${String(at)}`) });
    }
    for (const [id, schedule] of own) played.schedules.set(id, schedule);
    played.described.length = 0;
    const { crons, left } = await listCrons(played.served, callerOf("ada"));
    expect(crons[0]).toMatchObject({ cron: "z-nightly", isProven: true });
    expect(crons.slice(1).map((each) => "isProven" in each && each.isProven)).toEqual(
      Array.from({ length: 20 }, () => false),
    );
    expect(left).toEqual({ signed: 0, unsigned: 4_980 });
    expect(played.described).toHaveLength(21);
    await expect(make("another")).resolves.toMatchObject({ isNew: true });
  });
  it("fifty that name a user keep that user from none", async () => {
    for (let at = 0; at < 50; at += 1) putThere(`forged-${String(at)}`);
    await expect(make("nightly")).resolves.toMatchObject({ isNew: true });
  });
  it("input of another form starts nothing, and leaves a line in the audit", async () => {
    const lines: unknown[] = [];
    const audit = { add: (line: unknown) => lines.push(line) };
    const start = cronStarter({ served: played.served, access: () => ACCESS, audit });
    for (const input of [null, {}, { cron: "x", terms: { file: deep(1_000) }, order: "" }])
      expect(await start(input as never, AT_MS)).toMatchObject({ code: "NOT_ALLOWED" });
    const line = { act: "cron-start", who: "unknown", verdict: "refused" };
    expect(lines).toMatchObject([line, line, line]);
  });
});
it("is not made for one with more groups than could ever be proven", async () => {
  const groups = Array.from({ length: 400 }, (_, at) => `a-group-of-the-company-${String(at)}`);
  await expect(make("grouped", {}, callerOf("ada", groups))).rejects.toMatchObject({
    code: "BAD_INPUT",
    message: expect.stringContaining("400 groups") as string,
  });
  expect(played.schedules.size).toBe(0);
});
it("a list asks the server about the caller's schedules alone", async () => {
  await make("of-ada");
  await make("of-bob", {}, callerOf("bob"));
  played.described.length = 0;
  expect(await listed(callerOf("ada"))).toMatchObject([{ cron: "of-ada", isProven: true }]);
  expect(played.described).toEqual([cronScheduleId("f", "of-ada")]);
});
describe("a signature that is believed no more", () => {
  it("is shown to whom it names, who can delete the schedule; to nobody else", async () => {
    const start = await startWith("skip");
    played.rotateTwice();
    expect(await start()).toMatchObject({
      kind: "refused",
      message: expect.stringContaining("rotations") as string,
    });
    expect(await listed(callerOf("ada"))).toMatchObject([
      { cron: "nightly", user: "ada", isProven: false },
    ]);
    expect((await listed(callerOf("ada")))[0]).not.toHaveProperty("isPutBack");
    expect(await listed(callerOf("bob"))).toEqual([]);
    await expect(remove("nightly", "bob")).rejects.toMatchObject({ code: "NOT_ALLOWED" });
    await remove("nightly", "ada");
    expect(played.schedules.size).toBe(0);
    // It may name the number of another's.
    expect(played.revoked.size).toBe(0);
  });
  it("one that is believed is revoked with its schedule", async () => {
    await make("nightly");
    await remove("nightly", "ada");
    expect(played.revoked.size).toBe(1);
  });
});
describe("what a time became", () => {
  const order = { fleet: "f", cron: "c", principal: principalOf("ada"), number: "5d2f01ab-1" };
  const ask = () => outcomeOf(played.served, order, { atMs: AT_MS, workflowId: "w", runId: "r" });
  it("is the job, once the server has forgotten its workflow, where the job is there", async () => {
    expect(await ask()).toEqual({ kind: "unknown" });
    played.put("c-20310304-030000-5d2f01ab", "ada");
    expect(await ask()).toMatchObject({ kind: "submitted" });
  });
  it.each([
    ["a job of ours", payloadOf({ kind: "submitted", jobId: "j" }), "submitted"],
    ["nothing", payloadOf(null), "unknown"],
    ["an answer of another form", payloadOf({ kind: "submitted", jobId: 7 }), "unknown"],
    ["an answer that cannot be read", TORN, "unknown"],
  ])("of a workflow that returned %s", async (_, result, kind) => {
    const handle = { describe: () => Promise.resolve({ status: { name: "COMPLETED" } }) };
    const completed = { result: { payloads: [result] } };
    const events = [{ workflowExecutionCompletedEventAttributes: completed }];
    Object.assign(played.served.temporal.workflow, { getHandle: () => handle });
    Object.assign(played.served.temporal.workflowService, {
      getWorkflowExecutionHistory: () => Promise.resolve({ history: { events } }),
    });
    expect(await ask()).toMatchObject({ kind });
  });
  it("is not made up where the server does not answer", async () => {
    const down = new OrbweaverError("NO_CONNECTION", "down");
    const handle = { describe: () => Promise.reject(down) };
    Object.assign(played.served.temporal.workflow, { getHandle: () => handle });
    await expect(ask()).rejects.toBe(down);
  });
});
