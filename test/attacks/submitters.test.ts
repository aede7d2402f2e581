/**
 * @file Level 2, the frontend is open: another user of the machine, with its own Temporal client and worker, starts nothing on a host that it may not use.
 *
 * `thief` stands for any user: what it lacks is the key of the agent's user. Where the uid itself matters, a process of `nobody` acts.
 */

import type { WorkflowHandle } from "@temporalio/client";
import { randomUUID } from "node:crypto";
import { chownSync, existsSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { signJob } from "../../access/job-proof.ts";
import { ownIdentity, type Identity } from "../../access/own-identity.ts";
import { readJob } from "../../client/submission.ts";
import type { JobFile } from "../../domain/job/job-file.ts";
import { AMENDED_MEMO } from "../../protocol/job-orders.ts";
import { JOB_TASK_QUEUE, JOB_WORKFLOW } from "../../protocol/messages.ts";
import { contentOfSpec, PROOF_AGE_MS, PROOF_MEMO } from "../../protocol/signed-job.ts";
import { asUser, isRoot, NOBODY } from "../support/as-user.ts";
import { startAttacker, type Attacker } from "./attacker.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

let dir = "";
let world: World;
let own: Identity;
let thief: Identity;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-submitters-"));
  own = ownIdentity();
  thief = ownIdentity({ ORBWEAVER_IDENTITY: join(dir, "thief.pem") });
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(async () => {
  await world.stop();
  removeFolder(dir);
});

/** What the attacks want to run; it exists when one has succeeded. */
const loot = (): string => join(dir, "loot");
const evilFile = (more: object = {}): JobFile =>
  ({
    name: "evil",
    gang: { gpus: 1 },
    run: { command: ["sh", "-c", `id > ${loot()}`] },
    ...more,
  }) as JobFile;
const honestFile: JobFile = {
  name: "honest",
  tenant: "research",
  gang: { gpus: 1 },
  run: { command: ["sh", "-c", "echo honest work"] },
} as JobFile;

let count = 0;
const newId = (): string => `${world.fleet}-attack-${String((count += 1))}`;

async function start(
  file: JobFile,
  {
    proof,
    jobId = newId(),
    memo = proof === undefined ? {} : { [PROOF_MEMO]: proof },
  }: {
    readonly proof?: unknown;
    readonly jobId?: string;
    readonly memo?: Readonly<Record<string, unknown>>;
  } = {},
): Promise<WorkflowHandle> {
  return await world.temporal.workflow.start(JOB_WORKFLOW, {
    workflowId: jobId,
    taskQueue: JOB_TASK_QUEUE,
    workflowIdReusePolicy: "ALLOW_DUPLICATE",
    args: [file, { fleet: world.fleet }],
    memo,
  });
}

const proofFor = (file: JobFile, jobId: string, by: Identity, atMs = Date.now()): string =>
  signJob({ jobId, content: contentOfSpec(readJob(file).spec) }, by, atMs);

async function refusalOf(handle: WorkflowHandle): Promise<string> {
  const outcome = await world.orbweaver.job(handle.workflowId).outcome();
  expect(outcome).toMatchObject({ kind: "failed", failure: { code: "NOT_ALLOWED" } });
  expect(existsSync(loot())).toBe(false);
  return outcome.kind === "failed" ? outcome.message : "";
}

/** The line of the host's refusal in the audit: with the agent's next heartbeat. */
async function expectAudited(sender: string, why: string): Promise<void> {
  const line = { sender, what: `run of ${sender}`, why: expect.stringContaining(why) as string };
  await expect
    .poll(async () => JSON.parse((await world.cli(["audit", "--json"])).stdout) as unknown)
    .toMatchObject({ words: expect.arrayContaining([expect.objectContaining(line)]) as unknown });
}

describe("level 2: on an agent without a policy", () => {
  it("the agent's own user runs jobs, and so does its command line", async () => {
    const { jobId } = await world.orbweaver.submit(honestFile);
    expect(await world.orbweaver.job(jobId).outcome()).toMatchObject({ kind: "completed" });
    const done = await world.cli(["submit", "--wait", "--gpus", "8", "--", "true"]);
    expect(done.code).toBe(0);
  });

  it("a job without a signature starts nothing, on one host or on several", async () => {
    const unsigned = await start(evilFile());
    expect(await refusalOf(unsigned)).toContain("it is not signed");
    await expectAudited(unsigned.workflowId, "it is not signed");
    expect(await refusalOf(await start(evilFile({ gang: { gpus: 8 } })))).toContain("not signed");
  });

  it("no task of an unsigned array starts", async () => {
    const handle = await start(evilFile({ array: { count: 5, parallel: 2 } }));
    expect(await world.orbweaver.job(handle.workflowId).outcome()).toMatchObject({
      kind: "failed",
      failure: { code: "TASKS_FAILED" },
    });
    expect(existsSync(loot())).toBe(false);
  });

  it("a job that another user has signed starts nothing, and the message says how to admit the user", async () => {
    const jobId = newId();
    const proof = proofFor(evilFile(), jobId, thief);
    const message = await refusalOf(await start(evilFile(), { proof, jobId }));
    expect(message).toContain(`has signed this one`);
    expect(message).toContain(thief.publicKey);
  });

  it.each([
    ["of another command", (jobId: string) => proofFor(honestFile, jobId, own), /differs from/],
    ["of another job", () => proofFor(evilFile(), "other-job", own), /that of job other-job/],
    [
      "of another tenant",
      (jobId: string) => proofFor(evilFile({ tenant: "research" }), jobId, own),
      /differs from/,
    ],
    [
      "with another environment",
      (jobId: string) =>
        proofFor(
          evilFile({ run: { ...evilFile().run, env: { LD_PRELOAD: "/tmp/x.so" } } }),
          jobId,
          own,
        ),
      /differs from/,
    ],
    [
      "that is old",
      (jobId: string) => proofFor(evilFile(), jobId, own, Date.now() - 2 * PROOF_AGE_MS),
      /20 minutes away/,
    ],
    [
      "from the future",
      (jobId: string) => proofFor(evilFile(), jobId, own, Date.now() + 2 * PROOF_AGE_MS),
      /20 minutes away/,
    ],
    [
      "with exchanged claims",
      (jobId: string) => {
        const [, signature = ""] = proofFor(honestFile, jobId, own).split(".");
        return `${proofFor(evilFile(), jobId, thief).split(".")[0] ?? ""}.${signature}`;
      },
      /forged/,
    ],
    ["that is junk", () => ({ length: 1e9 }), /not signed/],
  ])("a signature %s starts nothing", async (_name, proofOf, wantReason) => {
    const jobId = newId();
    const handle = await start(evilFile(), { proof: proofOf(jobId), jobId });
    expect(await refusalOf(handle)).toMatch(wantReason);
  });

  it("a signature that was read from a job's memo starts no other command under the job's id", async () => {
    const { jobId } = await world.orbweaver.submit(honestFile);
    const handle = world.temporal.workflow.getHandle(jobId);
    await handle.result();
    const { memo } = await handle.describe();
    const proof = memo?.[PROOF_MEMO];
    expect(proof).toMatch(/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/);
    expect(await refusalOf(await start(evilFile(), { proof, jobId }))).toMatch(/differs from/);
  });

  it("a job that has ended is not begun again by its signature, wherever in a memo it stands; the job itself is, when it is reset", async () => {
    const { jobId } = await world.orbweaver.submit(honestFile);
    const handle = world.temporal.workflow.getHandle(jobId);
    await handle.result();
    const { memo, runId } = await handle.describe();
    const proof = memo?.[PROOF_MEMO];
    const { events } = await handle.fetchHistory();
    const firstTask = events?.find((event) => event.workflowTaskCompletedEventAttributes);
    await world.temporal.workflowService.resetWorkflowExecution({
      ...{ namespace: world.temporal.options.namespace, requestId: randomUUID() },
      workflowExecution: { workflowId: jobId, runId },
      workflowTaskFinishEventId: firstTask?.eventId ?? null,
    });
    expect(await world.orbweaver.job(jobId).outcome()).toMatchObject({ kind: "completed" });
    const other = signJob({ jobId, content: {} }, thief, Date.now());
    for (const read of [
      { [PROOF_MEMO]: proof },
      { [AMENDED_MEMO]: [proof] },
      { [PROOF_MEMO]: other, [AMENDED_MEMO]: [proof, proof] },
    ]) {
      const again = await start(honestFile, { jobId, memo: read });
      expect(await refusalOf(again)).toContain("has served an earlier workflow of its id");
    }
    await expectAudited(jobId, "has served an earlier workflow of its id");
  });
});

describe("level 2: orders past the job's workflow", () => {
  let attacker: Attacker;
  beforeAll(async () => {
    attacker = await startAttacker(world);
  });
  afterAll(() => attacker.stop());

  it("an order from an attacker's workflow starts nothing, not even with a signed job's own order and id", async () => {
    const { jobId } = await world.orbweaver.submit(honestFile);
    const handle = world.temporal.workflow.getHandle(jobId);
    await handle.result();
    const { runId } = await handle.describe();
    const [hostId, host] = [...(await world.ledger()).hosts][0] ?? [];
    const { spec } = readJob(honestFile);
    const order = {
      jobId,
      jobName: spec.name,
      workflowId: jobId,
      workflowRunId: runId,
      leaseId: "L999",
      token: 999,
      holder: {
        runId,
        seq: 1,
        class: "training",
        tenant: spec.tenant,
        grantedAtMs: 1,
        requestedAtMs: 1,
      },
      attempt: 1,
      host: hostId,
      gang: [{ host: hostId, mask: 1, address: "127.0.0.1" }],
      run: { ...spec.run, command: ["sh", "-c", `id > ${loot()}`] },
      prepareTimeoutMs: 5_000,
    };
    await expect(attacker.order(host?.agent?.runQueue, "run", order)).rejects.toMatchObject({
      cause: {
        cause: {
          type: "NOT_ALLOWED",
          message: expect.stringContaining("not from its job") as string,
        },
      },
    });
    expect(existsSync(loot())).toBe(false);
    // Its token, higher than any, has not made the host's later orders stale.
    const next = await world.orbweaver.submit(honestFile);
    expect(await world.orbweaver.job(next.jobId).outcome()).toMatchObject({ kind: "completed" });
  });
});

describe.runIf(isRoot)("level 2: a process of another user", () => {
  const submitAs = async (env: Readonly<Record<string, string>>) =>
    await asUser(
      NOBODY,
      [process.execPath, join(ROOT, "dist/cli/main.js"), "submit", "--json", "--wait"].concat([
        "--gpus",
        "1",
        "--",
        "sh",
        "-c",
        `id > ${loot()}`,
      ]),
      {
        TEMPORAL_ADDRESS: world.address,
        TEMPORAL_CONFIG_FILE: "/nonexistent/profile.toml",
        ORBWEAVER_FLEET: world.fleet,
        ...env,
      },
    );

  it("cannot use the agent's user's identity, and its own is refused", async () => {
    const home = mkdtempSync(join(tmpdir(), "orbweaver-nobody-"));
    chownSync(home, NOBODY, NOBODY);
    const stolen = await submitAs({ HOME: home, ORBWEAVER_IDENTITY: own.file });
    expect(stolen.stderr).toMatch(/not signed/);
    const alone = await submitAs({ HOME: home });
    expect(`${alone.stdout}${alone.stderr}`).toMatch(/NOT_ALLOWED/);
    expect(alone.code).not.toBe(0);
    expect(existsSync(loot())).toBe(false);
    removeFolder(home);
  });
});

describe("level 2: on an agent with a policy", () => {
  let policed: World;
  beforeAll(async () => {
    const policy = join(dir, "agent.yaml");
    writeFileSync(
      policy,
      `submitters:
  - { name: alice, key: "${thief.publicKey}", tenants: [research] }
commands: [sh, /opt/tools/]
deniedEnv: [SSH_AUTH_SOCK]
${isRoot ? "users: { research: nobody }\n" : ""}`,
      { mode: 0o644 },
    );
    policed = await startWorld({
      address: serverAddress(),
      fleetYaml: SMALL_FLEET,
      agentArgs: ["--policy", policy],
    });
  });
  afterAll(() => policed.stop());

  const run = async (file: JobFile, by: Identity): Promise<string> => {
    const jobId = newId();
    await policed.temporal.workflow.start(JOB_WORKFLOW, {
      workflowId: jobId,
      taskQueue: JOB_TASK_QUEUE,
      args: [file, { fleet: policed.fleet }],
      memo: { [PROOF_MEMO]: proofFor(file, jobId, by) },
    });
    const outcome = await policed.orbweaver.job(jobId).outcome();
    return outcome.kind === "failed" ? outcome.message : outcome.kind;
  };

  it("a submitter that it names runs jobs of its tenants; nobody else does, the agent's user included", async () => {
    expect(await run(honestFile, thief)).toBe("completed");
    expect(await run({ ...honestFile, tenant: "other" } as JobFile, thief)).toMatch(
      /lets alice submit for research, not for other/,
    );
    expect(await run(honestFile, own)).toMatch(/names no submitter with the key/);
  });

  it.each([
    ["a command that it does not name", { command: ["id"] }, /does not allow the command "id"/],
    [
      "a way out of an allowed folder",
      { command: ["/opt/tools/../../bin/sh", "-c", "id"] },
      /does not allow the command/,
    ],
    ["LD_PRELOAD", { command: ["sh"], env: { LD_PRELOAD: "/tmp/x.so" } }, /LD_PRELOAD/],
    [
      "a PATH on which the allowed command is the job's own",
      { command: ["sh", "-c", "id"], env: { PATH: "/tmp/mine" } },
      /denies the environment variable "PATH"/,
    ],
    [
      "a library that a driver loads",
      { command: ["sh"], env: { CUDA_INJECTION64_PATH: "/tmp/x.so" } },
      /CUDA_INJECTION64_PATH/,
    ],
    ["a variable that it denies", { command: ["sh"], env: { SSH_AUTH_SOCK: "/x" } }, /SSH_AUTH/],
    [
      "a checkpoint command that it does not name",
      { command: ["sh"], checkpoint: { command: ["id"] } },
      /does not allow the command "id"/,
    ],
  ])("it refuses %s", async (_name, more, wantReason) => {
    expect(await run({ ...honestFile, run: more } as JobFile, thief)).toMatch(wantReason);
  });
});

it("fleet show says whose jobs the hosts start", async () => {
  const shown = await world.cli(["fleet", "show"]);
  expect(shown.stdout).toContain(`trust: 3 hosts start only jobs that user ${own.name} has signed`);
});
