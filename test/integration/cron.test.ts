/** @file Jobs on a schedule: started by Temporal's clock under a standing signature, with the rights that their submitter has at each time. */

import { ScheduleNotFoundError } from "@temporalio/client";
import { mkdtempSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readAuditLog, type AuditLine } from "../../access/audit-log.ts";
import { listedSchedules } from "../../api/schedules.ts";
import { startService, type Service } from "../../api/service.ts";
import {
  openCronClient,
  type CronClient,
  type CronRun,
  type NewCron,
} from "../../client/cron-client.ts";
import type { Access } from "../../domain/fleet/access-schema.ts";
import type { JobFile } from "../../domain/job/job-file.ts";
import { cronScheduleId, type CronInput } from "../../protocol/cron.ts";
import { isolatedConnection } from "../../workers/connection.ts";
import { startCronWorker, type CronWorker } from "../../workers/cron-worker.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, type World } from "../support/world.ts";
import { startServedWorld } from "../support/served-world.ts";
import { standInIssuer } from "../../bench/interactive/stand-in-issuer.ts";
import { removeFolder } from "../support/remove-folder.ts";

const issuer = standInIssuer();
const ACCESS = `
access:
  principals:
    - { name: ada, subject: ada, issuer: company }
    - { name: bob, subject: bob, issuer: company }
    - { name: oscar, subject: oscar, issuer: company }
  grants:
    - { to: [oscar], role: operator }
    - { to: [ada, bob], role: user, tenants: [research] }
  issuers:
    ${issuer.line}
`;

let dir = "";
let world: World;
let service: Service;
let worker: CronWorker;
let access: Access | undefined;
const fleetFile = (): string => join(dir, "fleet.yaml");

beforeAll(async () => {
  dir = mkdtempSync("/tmp/ow-");
  const address = serverAddress();
  const served = await startServedWorld({ address, dir, yaml: ACCESS, readAccess: () => access });
  ({ world, access } = served);
  service = await startService(served.options);
  worker = await startCronWorker({
    connection: isolatedConnection({ address, namespace: "default" }),
    logger: pino({ level: "silent" }),
    fleet: world.fleet,
    activities: service.cronActivities,
  });
});
afterAll(async () => {
  try {
    for await (const { scheduleId } of listedSchedules(
      world.temporal,
      cronScheduleId(world.fleet, ""),
    ))
      await deleted(scheduleId);
    await worker.close();
    await service.close();
  } finally {
    await world.stop();
    removeFolder(dir);
  }
});

/** The server's list is behind: one that a test has deleted may still be in it. */
async function deleted(scheduleId: string): Promise<void> {
  try {
    await world.temporal.schedule.getHandle(scheduleId).delete();
  } catch (error) {
    if (!(error instanceof ScheduleNotFoundError)) throw error;
  }
}

const { tokenOf } = issuer;
const url = (): URL => new URL(`http://127.0.0.1:${String(service.port)}`);
const cronsOf = (sub: string): CronClient => openCronClient({ url: url(), token: tokenOf(sub) });

const pause = (ms = 100): Promise<void> => new Promise((wake) => setTimeout(wake, ms));
const lines = (): readonly AuditLine[] => readAuditLog(join(dir, "audit.jsonl")).lines;

const job = (command: string, more: object = {}): JobFile =>
  ({
    name: "job",
    tenant: "research",
    gang: 1,
    run: { command: ["sh", "-c", command] },
    ...more,
  }) as JobFile;
/** At no time, unless it is told to run. */
const never = (key: string, command: string, more: Partial<NewCron> = {}): NewCron => ({
  ...{ job: job(command), key, expression: "0 3 29 2 *", timeZone: "UTC", overlap: "skip" },
  ...more,
});

async function runsOf(crons: CronClient, cron: string): Promise<readonly CronRun[]> {
  const known = (await crons.list()).crons.find((each) => each.cron === cron);
  return known !== undefined && "runs" in known ? known.runs : [];
}
/** The runs of a schedule, the newest first, once the first so many have been decided. */
async function decided(
  cron: string,
  count: number,
  crons = cronsOf("ada"),
): Promise<readonly CronRun[]> {
  for (;;) {
    const runs = await runsOf(crons, cron);
    const first = runs.slice(-count);
    if (first.length === count && first.every(({ outcome }) => outcome.kind !== "waits"))
      return runs;
    await pause();
  }
}
/** As whoever reaches the frontend can; the service takes no such times. Seldom enough that a busy machine decides one before the next few have come. */
async function tickOften(cron: string): Promise<void> {
  const schedule = world.temporal.schedule.getHandle(cronScheduleId(world.fleet, cron));
  await schedule.update((former) => ({ ...former, spec: { intervals: [{ every: "5s" }] } }));
}
const jobIn = (run: CronRun | undefined): string => {
  if (run?.outcome.kind !== "submitted") throw new Error(JSON.stringify(run));
  return run.outcome.jobId;
};
/** The jobs of a schedule, as the server's list of workflows has them, which is behind. */
async function listed(cron: string): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { jobId } of world.orbweaver.list({ all: true, labels: [`cron=${cron}`] }))
    found.push(jobId);
  return found;
}
/** A second apart, because a job's id says the second; and once the list has the jobs of before, by which the next is judged. */
async function runAgain(cron: string, before: number): Promise<readonly CronRun[]> {
  const crons = cronsOf("ada");
  const runs = await runsOf(crons, cron);
  const jobs = runs.flatMap(({ outcome }) => (outcome.kind === "submitted" ? outcome.jobId : []));
  await expect.poll(() => listed(cron)).toEqual(expect.arrayContaining(jobs));
  await pause(1_000);
  await crons.run(cron);
  return await decided(cron, before + 1);
}

describe("a job on a schedule", () => {
  it("starts by the clock, in its submitter's name, and is found by its label", async () => {
    const crons = cronsOf("ada");
    expect(await crons.submit(never("tick", "id -un"))).toEqual({ cron: "tick", isNew: true });
    await tickOften("tick");
    const first = jobIn((await decided("tick", 1)).at(-1));
    await crons.pause("tick", "enough");
    expect((await crons.list()).crons.find(({ cron }) => cron === "tick")).toMatchObject({
      ...{ user: "ada", tenant: "research", name: "job", overlap: "skip" },
      ...{ expression: "0 3 29 2 *", timeZone: "UTC", isPaused: true, note: "ada: enough" },
    });
    expect(first).toMatch(/^tick-\d{8}-\d{6}-[0-9a-f]{8}$/);
    expect(await world.orbweaver.job(first).outcome()).toMatchObject({ kind: "completed" });
    await expect.poll(() => listed("tick")).toContain(first);
    const users = new Set<string | undefined>();
    for await (const { user } of world.orbweaver.list({ all: true, labels: ["cron=tick"] }))
      users.add(user);
    expect(users).toEqual(new Set(["ada"]));
    expect(lines().filter(({ job: named }) => named === "tick" || named === first)).toMatchObject([
      { who: "ada", act: "cron-submit", verdict: "accepted", why: "0 3 29 2 *" },
      { who: "ada", act: "cron-start", verdict: "accepted", from: "schedule tick" },
      { who: "ada", act: "cron-pause", verdict: "accepted", why: "enough" },
    ]);
  });

  it("is made once by its key", async () => {
    const crons = cronsOf("ada");
    await crons.submit(never("once", "true"));
    expect(await crons.submit(never("once", "true"))).toEqual({ cron: "once", isNew: false });
    for (const other of [
      { job: job("false") },
      { overlap: "allow" as const },
      { timeZone: "Asia/Tokyo" },
    ])
      await expect(crons.submit(never("once", "true", other))).rejects.toMatchObject({
        code: "IDEMPOTENCY_CONFLICT",
      });
    await expect(cronsOf("bob").submit(never("once", "true"))).rejects.toMatchObject({
      code: "IDEMPOTENCY_CONFLICT",
    });
  });

  it.each([
    ["times that are none", { expression: "at noon" }],
    ["times that only have the form", { expression: "61 3 * * *" }],
    ["a time zone that is none", { timeZone: "Middle/Earth" }],
    ["a job that waits for others", { job: job("true", { after: [{ job: "x" }] }) }],
    ["a key that cannot be an id", { key: "a b" }],
    ["a job file with a mistake", { job: job("true", { gang: -1 }) }],
  ])("is refused with %s", async (_what, more) => {
    await expect(cronsOf("ada").submit(never("bad", "true", more))).rejects.toMatchObject({
      code: "BAD_INPUT",
    });
  });

  it("is not made, seen or changed by who has no right to", async () => {
    const attempts = [
      cronsOf("ada").submit(never("taken", "true", { job: job("true", { tenant: "finance" }) })),
      cronsOf("bob").pause("once"),
      cronsOf("bob").run("once"),
      cronsOf("bob").delete("once"),
    ];
    for (const attempt of await Promise.allSettled(attempts))
      expect(attempt).toMatchObject({ status: "rejected", reason: { code: "NOT_ALLOWED" } });
    await expect(cronsOf("bob").pause("nowhere")).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(await cronsOf("bob").list()).toEqual({ crons: [] });
  });
});

describe("while a job of before has not ended", () => {
  it("its time is skipped", async () => {
    await cronsOf("ada").submit(never("skipping", "sleep 300"));
    const first = jobIn((await runAgain("skipping", 0))[0]);
    expect((await runAgain("skipping", 1))[0]?.outcome).toEqual({ kind: "skipped", former: first });
    await world.orbweaver.job(first).cancel({ isForced: true });
  });

  it("one waits behind it, and no more", async () => {
    await cronsOf("ada").submit(never("queueing", "sleep 300", { overlap: "queue" }));
    const first = jobIn((await runAgain("queueing", 0))[0]);
    const second = jobIn((await runAgain("queueing", 1))[0]);
    const { spec } = await world.orbweaver.job(second).view();
    expect(spec?.after).toMatchObject([{ job: first, on: "end" }]);
    expect((await runAgain("queueing", 2))[0]?.outcome).toMatchObject({ kind: "skipped" });
    await world.orbweaver.job(second).cancel({ isForced: true });
    await world.orbweaver.job(first).cancel({ isForced: true });
  });

  it("both run", async () => {
    await cronsOf("ada").submit(never("both", "sleep 300", { overlap: "allow" }));
    const first = jobIn((await runAgain("both", 0))[0]);
    const second = jobIn((await runAgain("both", 1))[0]);
    for (const each of [first, second])
      while ((await world.orbweaver.job(each).view()).state !== "running") await pause();
    for (const each of [first, second]) await world.orbweaver.job(each).cancel({ isForced: true });
  });

  it("it is cancelled, and the new one runs once it has ended", async () => {
    await cronsOf("ada").submit(never("replacing", "sleep 300", { overlap: "replace" }));
    const first = jobIn((await runAgain("replacing", 0))[0]);
    while ((await world.orbweaver.job(first).view()).state !== "running") await pause();
    const second = jobIn((await runAgain("replacing", 1))[0]);
    expect(await world.orbweaver.job(first).outcome()).toEqual({ kind: "cancelled" });
    while ((await world.orbweaver.job(second).view()).state !== "running") await pause();
    await world.orbweaver.job(second).cancel({ isForced: true });
  });
});

describe("a standing signature", () => {
  const schedule = (cron: string) =>
    world.temporal.schedule.getHandle(cronScheduleId(world.fleet, cron));
  const argsOf = async (cron: string): Promise<CronInput> =>
    ((await schedule(cron).describe()).action.args as readonly CronInput[])[0] as CronInput;
  /** As whoever reaches the frontend: what the workflow of a time answers. */
  const outcomeOf = async (input: CronInput): Promise<unknown> =>
    await world.temporal.workflow.execute("cron", {
      workflowId: `${world.fleet}-by-hand-${String(Math.random())}`,
      taskQueue: "orbweaver-jobs",
      args: [input],
    });

  it("starts nothing but what was signed, for nobody else", async () => {
    await cronsOf("ada").submit(never("signed", "true"));
    const input = await argsOf("signed");
    const forged: readonly CronInput[] = [
      { ...input, terms: { ...input.terms, file: job("id") } },
      { ...input, terms: { ...input.terms, overlap: "allow" } },
      { ...input, cron: "others" },
      { ...input, order: "" },
      { ...input, order: (await argsOf("once")).order },
    ];
    for (const each of forged) {
      expect(await outcomeOf(each)).toMatchObject({ kind: "refused", code: "NOT_ALLOWED" });
      expect(lines().at(-1)).toMatchObject({
        act: "cron-start",
        who: "unknown",
        verdict: "refused",
      });
    }
    expect(await outcomeOf(input)).toMatchObject({ kind: "submitted" });
  });

  it("is judged by the rights of that day", async () => {
    await cronsOf("ada").submit(never("judged", "true"));
    jobIn((await runAgain("judged", 0))[0]);
    const former = access;
    const tell = async (now: Access | undefined, roles: readonly string[]): Promise<void> => {
      access = now;
      writeFileSync(fleetFile(), `${SMALL_FLEET}# ${String(Math.random())}\n`, { mode: 0o600 });
      const headers = { Authorization: `Bearer ${tokenOf("ada")}` };
      for (let said = ""; said !== JSON.stringify(roles);) {
        await pause();
        const me = (await (await fetch(new URL("/v1/me", url()), { headers })).json()) as {
          roles: unknown;
        };
        said = JSON.stringify(me.roles);
      }
    };
    await tell({ ...former, grants: [{ to: ["ada"], role: "viewer" }] }, ["viewer"]);
    const input = await argsOf("judged");
    // In the second of its first job, it would be told of that one again.
    await pause(1_000);
    expect(await outcomeOf(input)).toEqual({
      ...{ kind: "refused", code: "NOT_ALLOWED", message: "ada may not submit jobs" },
    });
    expect(lines().at(-1)).toMatchObject({
      ...{ act: "cron-start", who: "ada", verdict: "refused", why: "ada may not submit jobs" },
    });
    await tell(former, ["user"]);
    await pause(1_000);
    expect(await outcomeOf(input)).toMatchObject({ kind: "submitted" });
  });

  it("is revoked with its schedule, which nobody can put there again", async () => {
    await cronsOf("ada").submit(never("revoked", "true"));
    const input = await argsOf("revoked");
    const { memo = {} } = await schedule("revoked").describe();
    await cronsOf("ada").delete("revoked");
    await expect(schedule("revoked").describe()).rejects.toThrow();
    expect(await outcomeOf(input)).toMatchObject({ kind: "refused", code: "NOT_ALLOWED" });
    expect((await cronsOf("ada").list()).crons.map(({ cron }) => cron)).not.toContain("revoked");
    // By whoever reaches the frontend, with all that it was.
    await world.temporal.schedule.create({
      scheduleId: cronScheduleId(world.fleet, "revoked"),
      spec: { cronExpressions: [input.terms.expression] },
      action: {
        ...{ type: "startWorkflow", workflowType: "cron", taskQueue: `nobody-${world.fleet}` },
        args: [input],
      },
      memo,
    });
    await expect
      .poll(async () => (await cronsOf("ada").list()).crons)
      .toContainEqual(
        expect.objectContaining({ cron: "revoked", isProven: false, isPutBack: true }),
      );
    await cronsOf("ada").delete("revoked");
    await expect(schedule("revoked").describe()).rejects.toThrow();
    expect(await cronsOf("ada").submit(never("revoked", "true"))).toMatchObject({ isNew: true });
    expect(await outcomeOf(await argsOf("revoked"))).toMatchObject({ kind: "submitted" });
  });
});

describe("schedules of whoever reaches the frontend", () => {
  const torn = {
    metadata: { encoding: Buffer.from("json/plain") },
    data: Buffer.from("{"),
  };
  const put = async (cron: string, { memo, input }: { memo: object; input: object }) => {
    const scheduleId = cronScheduleId(world.fleet, cron);
    const taskQueue = { name: `nobody-${world.fleet}` };
    const payloads = [input];
    await world.temporal.workflowService.createSchedule({
      namespace: world.temporal.options.namespace,
      ...{ scheduleId, requestId: scheduleId },
      schedule: {
        spec: { cronString: ["0 3 29 2 *"] },
        action: {
          startWorkflow: {
            ...{ workflowId: scheduleId, workflowType: { name: "cron" }, taskQueue },
            input: { payloads },
          },
        },
      },
      memo: { fields: { ...memo } },
    });
  };
  const text = (value: unknown): object => ({
    metadata: { encoding: Buffer.from("json/plain") },
    data: Buffer.from(JSON.stringify(value)),
  });

  it("hide no other and stop no new one, however torn; an operator sees and deletes them", async () => {
    await cronsOf("ada").submit(never("whole", "true"));
    const fleet = text(world.fleet);
    const input = text({ cron: "x", terms: 7, order: 7 });
    await put("torn-memo", { memo: { fleet, user: torn }, input: torn });
    await put("torn-fleet", { memo: { fleet: torn, user: text("ada") }, input });
    await put("torn-input", { memo: { fleet, user: text("ada") }, input: torn });
    const names = ["torn-fleet", "torn-input", "torn-memo"];
    const oscar = cronsOf("oscar");
    const unread = names.map((cron) => ({ cron, problem: "unreadable" }));
    await expect
      .poll(async () => (await oscar.list()).crons)
      .toEqual(expect.arrayContaining(unread));
    expect((await oscar.list()).crons.map(({ cron }) => cron)).toContain("whole");
    const own = (await cronsOf("ada").list()).crons.map(({ cron }) => cron);
    expect(own).toContain("whole");
    expect(names.filter((cron) => own.includes(cron))).toEqual([]);
    expect(await cronsOf("ada").submit(never("new", "true"))).toMatchObject({ isNew: true });
    await cronsOf("ada").pause("whole");
    await cronsOf("ada").delete("whole");
    for (const cron of names) {
      await expect(cronsOf("ada").delete(cron)).rejects.toMatchObject({ code: "NOT_FOUND" });
      expect(lines().at(-1)).toMatchObject({
        ...{ act: "cron-delete", who: "ada", verdict: "refused", job: cron },
      });
      await oscar.delete(cron);
    }
  });
});
