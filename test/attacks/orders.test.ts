/**
 * @file Level 2, the frontend is open: an attacker's workflows stop nothing, fence no host, read no output; and keys change under load.
 *
 * The attacker has a worker, and has read everything that histories hold, tickets included.
 */

import { WorkflowFailedError } from "@temporalio/client";
import { ActivityFailure } from "@temporalio/common";
import { existsSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { signJob } from "../../access/job-proof.ts";
import { ownIdentity, type Identity } from "../../access/own-identity.ts";
import {
  endLogSessionSignal,
  JOB_TASK_QUEUE,
  LOG_SESSION_RULES,
  LOG_SESSION_WORKFLOW,
  logSessionId,
  readLogUpdate,
} from "../../protocol/messages.ts";
import { PROOF_MEMO, READER_CONTENT } from "../../protocol/signed-job.ts";
import type { DisbelievedSender } from "../../client/disbelieved.ts";
import { decodedPayloads } from "../../client/payloads.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { startAttacker, type Attacker } from "./attacker.ts";
import { removeFolder } from "../support/remove-folder.ts";

let dir = "";
let world: World;
let attacker: Attacker;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-orders-"));
  // Its keys change: other worlds have theirs.
  process.env["ORBWEAVER_KEYS"] = join(dir, "keys");
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
  attacker = await startAttacker(world);
});
afterAll(async () => {
  await attacker.stop();
  await world.stop();
  removeFolder(dir);
});

/** The lines that `orbweaver audit` has of senders whom a host has refused, by the order and its reason. `job`: those about this one. */
async function auditOf(
  wanted: readonly (readonly [string, string])[],
  job: readonly string[] = [],
): Promise<void> {
  const linesOf = async (): Promise<readonly DisbelievedSender[]> => {
    const { stdout } = await world.cli(["audit", "--json", ...job]);
    const { words } = JSON.parse(stdout) as { readonly words: readonly DisbelievedSender[] };
    return words.filter(({ to = "" }) => to.startsWith("alpha/"));
  };
  // With the agent's next heartbeat.
  await expect
    .poll(linesOf)
    .toEqual(
      expect.arrayContaining(
        wanted.map(([what, why]) =>
          expect.objectContaining({ what, why: expect.stringContaining(why) as string }),
        ),
      ),
    );
}

/** What the host says to an order of the attacker's. */
async function refusalOf(
  queue: string | undefined,
  activity: string,
  order: unknown,
): Promise<string> {
  try {
    return `obeyed: ${JSON.stringify(await attacker.order(queue, activity, order))}`;
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
    const { cause } = error;
    return cause instanceof ActivityFailure ? (cause.cause?.message ?? "") : String(cause);
  }
}

async function runningVictim() {
  const { jobId } = await world.orbweaver.submit({
    name: "victim",
    gang: { gpus: 1 },
    run: { command: ["sh", "-c", "echo a secret; sleep 600"] },
  });
  const job = world.orbweaver.job(jobId);
  await expect.poll(async () => (await job.view()).state).toBe("running");
  const ledger = await world.ledger();
  const lease = [...ledger.leases.values()].find((each) => each.jobId === jobId);
  const host = lease?.gpus[0]?.host;
  const agent = [...ledger.hosts].find(([id]) => id === host)?.[1].agent;
  const { history } = await world.temporal.workflowService.getWorkflowExecutionHistory({
    namespace: world.temporal.options.namespace,
    execution: { workflowId: jobId },
  });
  const signals = (history?.events ?? []).flatMap(
    (event) => event.workflowExecutionSignaledEventAttributes?.input?.payloads ?? [],
  );
  const text = JSON.stringify(await decodedPayloads(world.temporal, signals));
  return { jobId, job, lease, host, agent, ticket: /"ticket":"([^"]+)"/.exec(text)?.[1] };
}

it("orders to stop, to fence and to show output do nothing, and the victim and its host go on", async () => {
  const { jobId, job, lease, host, agent, ticket } = await runningVictim();
  expect([host, agent?.orderQueue].every((each) => each !== undefined)).toBe(true);
  const queue = agent?.orderQueue;
  const stop = {
    ...{ jobId, host, leaseId: lease?.id, token: lease?.token },
    ...{ isCheckpointFirst: false, reason: "because" },
  };
  const far = 2 ** 52;
  expect(await refusalOf(queue, "stop", stop)).toContain("no ticket");
  expect(await refusalOf(queue, "stop", { ...stop, ticket })).toContain("not from its job");
  expect(await refusalOf(queue, "stop", { ...stop, leaseId: "lease-far", token: far })).toContain(
    "no ticket",
  );
  expect(await refusalOf(queue, "stopTasks", { ...stop, batchSeq: 1, tasks: [0] })).toContain(
    "no ticket",
  );
  expect(await refusalOf(queue, "checkpoint", stop)).toContain("no ticket");
  const terms = { fleet: world.fleet, epoch: "e", silenceMs: 1, fenceMs: 1, onSilence: "fence" };
  expect(await refusalOf(queue, "report", terms)).toContain("is for orbweaver-presence");
  expect(await refusalOf(queue, "keepContact", terms)).toContain("is for orbweaver-presence");
  const query = { jobId, host, leaseId: lease?.id, rank: 0, offset: 0, maxBytes: 99, waitMs: 0 };
  expect(await refusalOf(queue, "readLogs", query)).toContain("none for this job");

  expect((await job.view()).state).toBe("running");
  await auditOf([
    [`stop of ${jobId}`, "no ticket"],
    [`stop of ${jobId}`, "not from its job"],
    [`stopTasks of ${jobId}`, "no ticket"],
    [`checkpoint of ${jobId}`, "no ticket"],
    ["report", "is for orbweaver-presence"],
    ["keepContact", "is for orbweaver-presence"],
    [`readLogs of ${jobId}`, "none for this job"],
  ]);
  await job.cancel();
  const next = await world.cli(["submit", "--wait", "--gpus", "8", "--", "true"]);
  expect(next.code).toBe(0);
  expect((await world.ledger()).nextToken).toBeLessThan(1_000);
});

it("an order to run tells an attacker nothing of a job that runs or is over, and opens no launch that the attacker has written", async () => {
  const { jobId, job, lease, host, agent } = await runningVictim();
  const order = {
    ...{ jobId, jobName: "victim", workflowId: jobId, workflowRunId: "r" },
    ...{ leaseId: lease?.id, token: lease?.token, attempt: 1, host, prepareTimeoutMs: 5_000 },
    gang: [{ host, mask: 1, address: "127.0.0.1" }],
    holder: { runId: "r", seq: 1, class: "training", tenant: "default" },
    run: { command: ["true"], env: {}, graceMs: 1_000 },
  };
  const toRun = async (more: object): Promise<string> =>
    await refusalOf(agent?.runQueue, "run", { ...order, ...more });
  const running = toRun({});
  await job.cancel({ isForced: true });
  await job.outcome();
  expect(await running).toContain("not from its job");
  expect(await toRun({})).toContain("not from its job");
  // The id of a job that has ended is free for everybody who reaches the frontend.
  const inItsName = await attacker.orderAs(jobId, agent?.runQueue, "run", order);
  expect(inItsName).toContain("a later workflow with the id of");

  // Over already, by its files; the output of its rank is a link to what the agent's user alone may read.
  const launch = join(dir, "launch");
  mkdirSync(join(launch, "ranks/0"), { recursive: true });
  const secret = join(dir, "of-the-agent");
  writeFileSync(secret, "a secret of the agent", { mode: 0o600 });
  symlinkSync(secret, join(launch, "ranks/0", `${"0".repeat(16)}.log`));
  const status = {
    ...{ phase: "ended", startedAtMs: 1, endedAtMs: 2 },
    ranks: [{ rank: 0, end: { exitCode: 1, atMs: 2 } }],
    failure: { rank: 0, kind: "exited", exitCode: 1, atMs: 2 },
  };
  const shim = { bootId: "none", pid: 999_999_999, started: 1 };
  const mallory = `mallory-${world.fleet}`;
  const own = { ...order, jobId: mallory, workflowId: mallory, leaseId: "L-mallory" };
  for (const [name, value] of Object.entries({
    order: { order: own },
    claim: { kind: "shim", shim },
    status,
  }))
    writeFileSync(join(launch, `${name}.json`), JSON.stringify(value));
  const seq = `${"../".repeat(20)}${launch.slice(1)}`;
  const taskBatch = { seq, tasks: [0], slots: 1, gpusPerTask: 1, count: 1 };
  expect(await toRun({ ...own, taskBatch })).toContain("not from its job");
  expect(existsSync(join(launch, "report.json"))).toBe(false);
  await auditOf([
    [`run of ${jobId}`, "not from its job"],
    [`run of ${jobId}`, "a later workflow with the id of"],
    [`run of ${mallory}`, "not from its job"],
  ]);
  // Its own workflow has the right name, and the path of the launch is none all the same.
  expect(await attacker.orderAs(mallory, agent?.runQueue, "run", { ...own, taskBatch })).toContain(
    "has no whole number",
  );
  expect(existsSync(join(launch, "report.json"))).toBe(false);
});

it("who takes the id of a job that somebody has terminated neither stops nor checkpoints what still runs of it, nor watches it", async () => {
  const { jobId, lease, host, agent, ticket } = await runningVictim();
  await world.temporal.workflow.getHandle(jobId).terminate("by the attacker");
  const lost = {
    ...{ jobId, host, leaseId: lease?.id, token: lease?.token },
    ...{ isCheckpointFirst: false, reason: "because" },
  };
  const inItsName = async (queue: string | undefined, order: string, more = {}): Promise<string> =>
    await attacker.orderAs(jobId, queue, order, { ...lost, ...more });
  for (const order of ["checkpoint", "stop", "stopTasks"]) {
    expect(await inItsName(agent?.orderQueue, order)).toContain("no ticket");
    const lifted = await inItsName(agent?.orderQueue, order, { ticket });
    expect(lifted).toContain("a later workflow with the id of");
  }
  const run = { workflowId: jobId, workflowRunId: "r" };
  expect(await inItsName(agent?.runQueue, "run", run)).toContain("a later workflow with the id of");
  await auditOf([[`run of ${jobId}`, "a later workflow with the id of"]]);
  await world.until("the fleet has the GPUs back", ({ leases }) => !leases.has(lease?.id as never));
});

describe("a log session", () => {
  /** What the host says to the session; its proof, if it has one, is by the identity. */
  async function said(
    { jobId, lease, host }: Awaited<ReturnType<typeof runningVictim>>,
    { workflowId, proof }: { readonly workflowId: string; readonly proof?: string },
  ): Promise<string> {
    const session = await world.temporal.workflow.start(LOG_SESSION_WORKFLOW, {
      workflowId,
      taskQueue: JOB_TASK_QUEUE,
      args: [{ rules: LOG_SESSION_RULES, fleet: world.fleet, idleMs: 10_000 }],
      ...(proof !== undefined && { memo: { [PROOF_MEMO]: proof } }),
    });
    const place = { jobId, host, leaseId: lease?.id, rank: 0, offset: 0 };
    const query = { ...place, maxBytes: 99, waitMs: 0 } as never;
    const answer = await session.executeUpdate(readLogUpdate, { args: [query] }).then(
      ({ text }) => text,
      (error: unknown) => JSON.stringify(error, ["message", "cause"]),
    );
    await session.signal(endLogSessionSignal);
    await session.result();
    return answer;
  }
  const sign = (workflowId: string, identity: Identity): string =>
    signJob({ jobId: workflowId, content: READER_CONTENT }, identity, Date.now());

  it("shows a job's output to its submitter, and not to a session that another user has signed", async () => {
    const victim = await runningVictim();
    const thief = ownIdentity({ ORBWEAVER_IDENTITY: join(dir, "thief.pem") });
    const [unsigned, stolen] = ["0123456789", "0123456788"].map((number) =>
      logSessionId(victim.jobId, number),
    ) as [string, string];
    expect(await said(victim, { workflowId: unsigned })).toContain("not signed");
    const forged = { workflowId: stolen, proof: sign(stolen, thief) };
    expect(await said(victim, forged)).toContain("only the submitter");
    const own = await world.cli(["logs", victim.jobId]);
    expect(own.stdout).toContain("a secret");
    await victim.job.cancel();
  });

  it("is good for one job and once: who has read its signature neither reads with it another job, nor begins the session again", async () => {
    const victim = await runningVictim();
    const workflowId = logSessionId(victim.jobId, "0123456789");
    const proof = sign(workflowId, ownIdentity());
    expect(await said(victim, { workflowId, proof })).toContain("a secret");
    expect(await said(victim, { workflowId, proof })).toContain("its session is over");
    const other = await runningVictim();
    expect(await said(other, { workflowId, proof })).toContain("none for this job");
    await auditOf([[`readLogs of ${other.jobId}`, "none for this job"]], ["--job", other.jobId]);
    await Promise.all([victim.job.cancel(), other.job.cancel()]);
  });
});

it("jobs start while the fleet's keys are rotated and the former ones revoked", async () => {
  const wait = (): Promise<{ readonly code: number | null }> =>
    world.cli(["submit", "--wait", "--gpus", "1", "--", "true"]);
  const jobs: Promise<{ readonly code: number | null }>[] = [];
  for (let round = 0; round < 2; round += 1) {
    jobs.push(wait(), wait());
    const rotated = await world.cli(["keys", "fleet", "--rotate", "--json"]);
    const { keys } = JSON.parse(rotated.stdout) as { readonly keys: readonly string[] };
    expect(keys).toHaveLength(2);
    if (round === 1) await world.cli(["keys", "fleet", "--revoke", keys[1] ?? ""]);
  }
  for (const { code } of await Promise.all(jobs)) expect(code).toBe(0);
});
