/**
 * @file A submitter whose key a host's policy names no more, while jobs of it run and wait: what runs goes on to its end, and nothing else of it starts, by whatever way,
 * without a restart of an agent. Each refusal has its line in the audit.
 */

import { Client } from "@temporalio/client";
import { copyFileSync, mkdtempSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startService, type Service } from "../../api/service.ts";
import type { DisbelievedSender } from "../../client/disbelieved.ts";
import { openCronClient } from "../../client/cron-client.ts";
import { openServiceClient } from "../../client/index.ts";
import { openUserSession, type UserSession } from "../../client/session.ts";
import { apiKeyFiles, changeWithdrawn, makeRoleKeys } from "../../access/role-keys.ts";
import type { JobFile } from "../../domain/job/job-file.ts";
import { cronScheduleId } from "../../protocol/cron.ts";
import { killSignal, USER } from "../../protocol/messages.ts";
import { isolatedConnection } from "../../workers/connection.ts";
import { startCronWorker, type CronWorker } from "../../workers/cron-worker.ts";
import { signingInterceptor, wordProver } from "../../workers/word-signer.ts";
import { standInIssuer } from "../../bench/interactive/stand-in-issuer.ts";
import { kill, pidsWith } from "../support/processes.ts";
import { removeFolder } from "../support/remove-folder.ts";
import { startServedWorld } from "../support/served-world.ts";
import { serverAddress } from "../support/server-address.ts";
import type { World } from "../support/world.ts";

const issuer = standInIssuer();
const ACCESS = `
access:
  principals:
    - { name: ada, subject: ada, issuer: company }
  grants:
    - { to: [ada], role: user, tenants: [research] }
  issuers:
    ${issuer.line}
`;
const CRON = "nightly";
const PATIENCE = { timeout: 120_000 } as const;

let dir = "";
let world: World;
let service: Service;
let worker: CronWorker;
/** The policy of the hosts, as it was at their start. */
let admitting = "";
const policy = (): string => join(dir, "agent.yaml");

beforeAll(async () => {
  dir = mkdtempSync("/tmp/ow-");
  const server = serverAddress();
  const served = await startServedWorld({ address: server, dir, yaml: ACCESS });
  ({ world } = served);
  admitting = readFileSync(policy(), "utf8");
  service = await startService(served.options);
  worker = await startCronWorker({
    connection: isolatedConnection({ address: server, namespace: "default" }),
    logger: pino({ level: "silent" }),
    fleet: world.fleet,
    activities: service.cronActivities,
  });
  const terms = { expression: "0 3 29 2 *", timeZone: "UTC", overlap: "allow" } as const;
  await crons().submit({ job: job("cron", "true"), key: CRON, ...terms });
});
afterAll(async () => {
  try {
    await world.temporal.schedule.getHandle(cronScheduleId(world.fleet, CRON)).delete();
    await worker.close();
    await service.close();
  } finally {
    await world.stop();
    removeFolder(dir);
  }
});

const address = () => ({
  url: new URL(`http://127.0.0.1:${String(service.port)}`),
  token: issuer.tokenOf("ada"),
});
const ada = () => openServiceClient(address(), world.fleet);
const crons = () => openCronClient(address());
const job = (name: string, command: string, more: object = {}): JobFile =>
  ({
    name,
    tenant: "research",
    gang: 1,
    run: { command: ["sh", "-c", command] },
    ...more,
  }) as JobFile;
const idOf = (name: string): string => `${world.fleet}-${name}`;
const submit = async (file: JobFile): Promise<string> =>
  (await ada().submit(file, { idempotencyKey: idOf(file.name) })).jobId;
/** Runs until the test lets it end. */
const held = (name: string, more: object = {}): JobFile => {
  const script = "trap 'exit 0' USR1; while :; do sleep 0.1; done";
  const run = { command: ["sh", "-c", script], env: { HELD: idOf(name) } };
  return { ...job(name, "true", more), run } as JobFile;
};
/** Its shells: of a wrapper that has the same environment, the command is another. */
const shellsOf = (name: string): readonly number[] =>
  pidsWith(`HELD=${idOf(name)}`).filter((pid) => commandOf(pid).startsWith("sh\0-c\0trap"));
function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${String(pid)}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
const release = (name: string): void => shellsOf(name).forEach((pid) => kill(pid, "SIGUSR1"));
const runs = (name: string) =>
  expect.poll(() => shellsOf(name).length, PATIENCE).toBeGreaterThan(0);

/** In force for every order that comes later than a second. */
async function write(text: string): Promise<void> {
  writeFileSync(`${policy()}.next`, text, { mode: 0o600 });
  renameSync(`${policy()}.next`, policy());
  await new Promise((resolve) => setTimeout(resolve, 1_200));
}
const withdrawn = (): string => {
  const [key] = makeRoleKeys(apiKeyFiles());
  const read = JSON.parse(admitting) as {
    readonly submitters: readonly { readonly key: string }[];
  };
  return JSON.stringify({
    ...read,
    submitters: read.submitters.filter((each) => each.key !== key),
  });
};

const WHY = "names no submitter with the key";

async function expectRefused(jobId: string): Promise<void> {
  const outcome = await world.orbweaver.job(jobId).outcome();
  expect(outcome).toMatchObject({ kind: "failed", failure: { code: "NOT_ALLOWED" } });
  await expectAudited(jobId, `run of ${jobId}`, WHY);
}
async function expectAudited(sender: unknown, what: string, why: string): Promise<void> {
  const line = { sender, what, why: expect.stringContaining(why) as unknown };
  await expect
    .poll(async () => {
      const { stdout } = await world.cli(["audit", "--json"]);
      return (JSON.parse(stdout) as { readonly words: readonly DisbelievedSender[] }).words;
    }, PATIENCE)
    .toContainEqual(expect.objectContaining(line));
}

function shell(name: string, onOpen: () => void = () => undefined): UserSession {
  const start = { command: ["sleep", "600"], idleMs: 600_000 };
  const session = openUserSession(
    address(),
    { job: idOf(name), rank: 0, verb: "exec", start },
    {
      onData: (_channel, _bytes, taken) => taken(),
      onRoom: () => undefined,
      onPaired: (isPaired) => {
        if (isPaired) onOpen();
      },
    },
  );
  session.over.catch(() => undefined);
  return session;
}

describe("a key that a host's policy names no more", () => {
  let waiting = "";
  let open: UserSession;

  it("ends nothing that runs, and starts nothing that has waited", async () => {
    for (const name of ["runs", "requeued"]) await submit(held(name));
    await submit(held("array", { array: { count: 6, parallel: 1 } }));
    for (const name of ["runs", "requeued", "array"]) await runs(name);
    waiting = await submit(job("waits", "true", { after: [{ job: idOf("runs"), on: "end" }] }));
    let isOpen = false;
    open = shell("runs", () => (isOpen = true));
    await expect.poll(() => isOpen, PATIENCE).toBe(true);

    await write(withdrawn());
    const late = await submit(job("late", "true"));
    await expectRefused(late);
    expect(shellsOf("runs")).toHaveLength(1);
    expect(shellsOf("requeued")).toHaveLength(1);
  });

  it("ends the sessions that it opened, and opens none", async () => {
    expect(await open.over).toEqual({ reason: "withdrawn" });
    await expect(shell("runs").over).rejects.toThrow(/only the submitter/);
    await expectAudited(expect.any(String), `dial of ${idOf("runs")}`, "only the submitter");
  });

  it("shows its owner no output any more", async () => {
    const read = async (): Promise<void> => {
      for await (const chunk of ada().job(idOf("runs")).logs()) void chunk;
    };
    await expect(read()).rejects.toThrow(/starts no jobs of \S+ any more/);
  });

  it("starts no job again that goes back to the queue, whoever orders that", async () => {
    await world.orbweaver.job(idOf("requeued")).requeue();
    await expectRefused(idOf("requeued"));
    const { stdout } = await world.cli(["explain", idOf("requeued")]);
    expect(stdout).toContain("NOT_ALLOWED");
    expect(stdout.replaceAll(/\s+/g, " ")).toContain(WHY);
  });

  it("starts no further task of an array, of which what runs is counted as it ends", async () => {
    const outcome = world.orbweaver.job(idOf("array")).outcome();
    const releasing = setInterval(() => release("array"), 500);
    await outcome.finally(() => clearInterval(releasing));
    expect(await outcome).toMatchObject({ kind: "failed", failure: { code: "TASKS_FAILED" } });
    const { array } = await world.orbweaver.job(idOf("array")).view();
    const { completed = 0, failed = 0 } = array?.counts ?? {};
    expect(completed).toBeGreaterThan(0);
    expect(failed).toBeGreaterThan(0);
    expect(completed + failed).toBe(6);
    await expectAudited(idOf("array"), `run of ${idOf("array")}`, WHY);
  });

  it("starts no job of a schedule", async () => {
    await crons().run(CRON);
    const jobOf = async (): Promise<string | undefined> => {
      const [cron] = (await crons().list()).crons;
      const outcome = cron !== undefined && "runs" in cron ? cron.runs[0]?.outcome : undefined;
      return outcome?.kind === "submitted" ? outcome.jobId : undefined;
    };
    await expect.poll(jobOf, PATIENCE).toBeDefined();
    await expectRefused((await jobOf()) ?? "");
  });

  it("lets end what ran, and then refuses what waited for it", async () => {
    release("runs");
    expect(await world.orbweaver.job(idOf("runs")).outcome()).toMatchObject({ kind: "completed" });
    await expectRefused(waiting);
  });

  it("hinders nobody else meanwhile, and counts again when it is named again", async () => {
    const own = await world.orbweaver.submit(job("own", "true"));
    expect(await world.orbweaver.job(own.jobId).outcome()).toMatchObject({ kind: "completed" });
    await write(admitting);
    const again = await submit(job("again", "true"));
    expect(await world.orbweaver.job(again).outcome()).toMatchObject({ kind: "completed" });
  });
});

describe("a key of the submit service that was stolen", () => {
  const victim = (): string => idOf("robbed");
  const viewOf = () => world.orbweaver.job(victim()).view();

  it("gives orders to the jobs that it has signed until it is withdrawn, and then none, with a line in the audit", async () => {
    await submit(held("robbed"));
    await runs("robbed");
    const stolen = join(dir, "stolen.pem");
    copyFileSync(apiKeyFiles().privateFile, stolen);
    const prove = wordProver([USER], { ORBWEAVER_IDENTITY: stolen });
    const thief = new Client({
      connection: world.temporal.connection,
      identity: "thief",
      interceptors: { workflow: [signingInterceptor(prove)] },
    });
    const run = thief.workflow.getHandle(victim());
    const amend = (basis: number, priority: number) =>
      run.executeUpdate("amend", { args: [{ by: "thief", basis, changes: { priority } }] });
    await amend(0, 1);
    await expect.poll(async () => (await viewOf()).spec?.priority, PATIENCE).toBe(1);

    const [key = ""] = makeRoleKeys(apiKeyFiles());
    changeWithdrawn({ add: key });
    try {
      await amend(1, 2);
      await run.executeUpdate("suspend", { args: [{ by: "thief" }] });
      await run.signal(killSignal);
      await expect.poll(async () => (await viewOf()).junkSignals, PATIENCE).toBe(3);
      const { state, spec } = await viewOf();
      expect([state, spec?.priority]).toEqual(["running", 1]);
      const { stdout } = await world.cli(["audit", "--job", victim(), "--json"]);
      const { words } = JSON.parse(stdout) as { readonly words: readonly DisbelievedSender[] };
      const why = expect.stringContaining(`${key}, which was withdrawn`) as string;
      expect(words).toMatchObject([{ sender: "thief", times: 3, why }]);
      // Whose job it is stops it by the service, which signs with another key.
      await ada().job(victim()).cancel();
      await expect.poll(async () => (await viewOf()).state, PATIENCE).toBe("cancelled");
    } finally {
      changeWithdrawn({ remove: key });
    }
  });
});
