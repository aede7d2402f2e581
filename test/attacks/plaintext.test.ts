/**
 * @file Level 2, the frontend is open, and payloads have keys: who holds the right signing keys but speaks in the open is not heard, and ciphertext that was lifted
 * from one workflow starts and tells no other. The keys change meanwhile, from ones that do not bind to one that does.
 */

import { Client } from "@temporalio/client";
import type { Payload, PayloadCodec } from "@temporalio/common";
import { Worker } from "@temporalio/worker";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { OrbweaverClient } from "../../client/orbweaver-client.ts";
import {
  FLEET_TASK_QUEUE,
  FLEET_WORKFLOW,
  fleetWorkflowId,
  inboxSignal,
  JOB_TASK_QUEUE,
  JOB_WORKFLOW,
  LOBBY_WORKFLOW,
  lobbyLeaveSignal,
  USER,
  WORD_ROLES,
} from "../../protocol/messages.ts";
import { LINK_MONITOR_RULES, LINK_MONITOR_WORKFLOW } from "../../protocol/link-messages.ts";
import { cronScheduleId } from "../../protocol/cron.ts";
import { parsedJobId } from "../../client/job-handle.ts";
import { runId } from "../../domain/values/ids.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { orbweaverCodecs } from "../../workers/codec/index.ts";
import { newKeyLine } from "../../workers/codec/key-ring.ts";
import { signingInterceptor, wordProver } from "../../workers/word-signer.ts";
import { workflowBundle } from "../../workers/workflow-bundle.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

import { startAttacker } from "./attacker.ts";

const UNBOUND = newKeyLine().replace("bound:", "");
let dir = "";
let keyFile = "";
let world: World;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-plaintext-"));
  keyFile = join(dir, "keys");
  writeFileSync(keyFile, `${UNBOUND}\n`, { mode: 0o600 });
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET, keyFile });
});
afterAll(async () => {
  await world.stop();
  removeFolder(dir);
});

/** Signs as Orbweaver's own processes do, and writes payloads by `encode`. */
const speaker = (identity: string, encode: PayloadCodec["encode"]): Client =>
  new Client({
    ...{ connection: world.temporal.connection, identity },
    dataConverter: { payloadCodecs: [{ encode, decode: decodedBy }] },
    interceptors: { workflow: [signingInterceptor(wordProver([...WORD_ROLES, USER]))] },
  });
/** With the keys of the file as it is now. */
const decodedBy: PayloadCodec["decode"] = async (payloads, context) => {
  let all = payloads;
  for (const codec of orbweaverCodecs({ keyFile }).reverse())
    all = await codec.decode(all, context);
  return all;
};
const inTheOpen: PayloadCodec["encode"] = (payloads) => Promise.resolve(payloads);

/** The raw input of a workflow, as anybody reads it who reaches the frontend. */
async function inputOf(workflowId: string): Promise<Payload[]> {
  const { events } = await world.temporal.workflow.getHandle(workflowId).fetchHistory();
  return events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
}

const FILE = { name: "open", gang: { gpus: 1 }, run: { command: ["true"] } };

async function startedBy(client: Client, name: string): Promise<unknown> {
  const workflowId = `${name}-${world.fleet}`;
  await client.workflow.start(JOB_WORKFLOW, {
    ...{ workflowId, taskQueue: JOB_TASK_QUEUE },
    args: [FILE, { fleet: world.fleet }],
  });
  return world.orbweaver.job(workflowId).outcome();
}

const refusedFor = (text: string): unknown =>
  expect.objectContaining({
    kind: "failed",
    failure: expect.objectContaining({ code: "NOT_ALLOWED" }),
    message: expect.stringContaining(text),
  });

const heldJob = async (): Promise<string> =>
  (await world.orbweaver.submit({ ...FILE, name: "held", hold: true })).jobId;

async function logOf(client: OrbweaverClient, jobId: string): Promise<string> {
  let text = "";
  for await (const part of client.job(jobId).logs()) text += part;
  return text;
}

it("signed words, orders and jobs in the open are refused, counted by sender, and stand in the audit", async () => {
  const keyless = speaker("keyless", inTheOpen);
  const jobId = await heldJob();
  for (let times = 0; times < 3; times += 1)
    await keyless.workflow.getHandle(fleetWorkflowId(world.fleet)).signal(inboxSignal, []);
  await world.until("the words are dead letters", ({ deadLetters }) =>
    deadLetters.some(({ sender, times = 1 }) => sender === "keyless" && times === 3),
  );
  const order = new OrbweaverClient(keyless, { fleet: world.fleet }).job(jobId).release();
  await expect(order).rejects.toThrow(/not believed: it is not encrypted/);
  expect((await world.orbweaver.job(jobId).view()).state).toBe("held");
  expect(await startedBy(keyless, "open")).toEqual(refusedFor("it is not encrypted"));
  for (const args of [["audit"], ["audit", "--job", jobId]]) {
    const { stdout } = await world.cli(args);
    expect(stdout).toMatch(/keyless.*it is not encrypted/);
  }
  await world.orbweaver.job(jobId).cancel();
});

it("what a keyless reader of logs or starter of learners asks is refused, and those with keys are answered", async () => {
  const keyless = speaker("keyless", inTheOpen);
  const { jobId } = await world.orbweaver.submit({ ...FILE, run: { command: ["echo", "hello"] } });
  expect(await world.orbweaver.job(jobId).outcome()).toMatchObject({ kind: "completed" });
  const inTheOpenTo = new OrbweaverClient(keyless, { fleet: world.fleet });
  await expect(logOf(inTheOpenTo, jobId)).rejects.toThrow(/it is not encrypted/);
  expect(await logOf(world.orbweaver, jobId)).toContain("hello");
  const learner = keyless.workflow.execute(LINK_MONITOR_WORKFLOW, {
    ...{ workflowId: `open-learner-${world.fleet}`, taskQueue: JOB_TASK_QUEUE },
    args: [{ fleet: world.fleet, rules: LINK_MONITOR_RULES }],
  });
  await expect(learner).rejects.toMatchObject({
    cause: { cause: { type: "NOT_ALLOWED", message: expect.stringMatching(/not encrypted/) } },
  });
});

/** What a call failed for, at the root. */
async function refusalOf(call: Promise<unknown>): Promise<unknown> {
  let error = await call.then(
    (answer) => new Error(`it was answered: ${JSON.stringify(answer)}`),
    (thrown: unknown) => thrown,
  );
  while (error instanceof Error && error.cause instanceof Error) error = error.cause;
  return error;
}

const NOT_ENCRYPTED = expect.objectContaining({
  type: "NOT_ALLOWED",
  message: expect.stringMatching(/not encrypted|in the open/) as string,
});

it("no worker with keys does, or signs, what a keyless workflow has scheduled, and no reader with keys believes its answers", async () => {
  const attacker = await startAttacker(world, decodedBy);
  try {
    const jobId = await heldJob();
    const run = await world.temporal.workflow.getHandle(jobId).describe();
    const end = { kind: "end", jobId, runId: run.runId, seq: 9 };
    const fleetId = fleetWorkflowId(world.fleet);
    const told = attacker.order(JOB_TASK_QUEUE, "tellFleet", fleetId, end);
    expect(await refusalOf(told)).toEqual(NOT_ENCRYPTED);
    const post = { grants: [], pending: [], sweeps: [] };
    const delivered = attacker.order(FLEET_TASK_QUEUE, "deliver", post);
    expect(await refusalOf(delivered)).toEqual(NOT_ENCRYPTED);
    const audited = async (): Promise<unknown> =>
      JSON.parse((await world.cli(["audit", "--json"])).stdout) as unknown;
    const line = (what: string, to: string): unknown =>
      expect.objectContaining({
        ...{ what, to, sender: expect.stringContaining("attacker-") as string },
        why: expect.stringContaining("not encrypted") as string,
      });
    const words = [line("tellFleet", JOB_TASK_QUEUE), line("deliver", FLEET_TASK_QUEUE)];
    await expect.poll(audited).toMatchObject({ words: expect.arrayContaining(words) as unknown[] });
    const decoy = await attacker.job(`decoy-${world.fleet}`, { state: "running", attempts: [] });
    const { code, stderr } = await world.cli(["status", decoy.workflowId]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/NOT_ALLOWED.*not encrypted/)]);
    await decoy.terminate();
    await world.orbweaver.job(jobId).cancel();
  } finally {
    await attacker.stop();
  }
});

it("fleets and lobbies that somebody without keys starts do nothing", async () => {
  const keyless = speaker("keyless", inTheOpen);
  const ledger = packLedger(await world.ledger());
  const fleet = await keyless.workflow.start(FLEET_WORKFLOW, {
    ...{ workflowId: fleetWorkflowId(`open-${world.fleet}`), taskQueue: FLEET_TASK_QUEUE },
    args: [{ name: `open-${world.fleet}`, ledger, areWordsSigned: true }],
  });
  await fleet.signal(inboxSignal, []);
  expect(await refusalOf(fleet.result())).toEqual(NOT_ENCRYPTED);
  const lobby = await keyless.workflow.start(LOBBY_WORKFLOW, {
    ...{ workflowId: `lobby-open-${world.fleet}`, taskQueue: JOB_TASK_QUEUE },
    args: [{ fleet: world.fleet, tenant: "open", isProofAsked: true }],
  });
  await lobby.signal(lobbyLeaveSignal, {
    jobId: parsedJobId("a-job"),
    runId: runId("r"),
    seq: 1,
    class: "training",
  });
  expect(await refusalOf(lobby.result())).toEqual(NOT_ENCRYPTED);
});

it("once keys bind, what was lifted from another workflow starts no job, and histories of both kinds of keys replay", async () => {
  const before = await heldJob();
  const lifted = await inputOf(before);
  writeFileSync(keyFile, `${newKeyLine()}\n${UNBOUND}\n`);
  // Meets the new key first; the others read their file again when they meet it.
  const renewed = speaker("renewed", async (payloads, context) => {
    let all = payloads;
    for (const codec of orbweaverCodecs({ keyFile })) all = await codec.encode(all, context);
    return all;
  });
  const own = new OrbweaverClient(renewed, { fleet: world.fleet });
  await own.job(before).release();
  expect(await own.job(before).outcome()).toMatchObject({ kind: "completed" });
  const { jobId } = await own.submit({ ...FILE, run: { command: ["echo", "bound"] } });
  expect(await own.job(jobId).outcome()).toMatchObject({ kind: "completed" });
  expect(await logOf(own, jobId)).toContain("bound");
  const learner = await renewed.workflow.start(LINK_MONITOR_WORKFLOW, {
    ...{ workflowId: `bound-learner-${world.fleet}`, taskQueue: JOB_TASK_QUEUE },
    args: [{ fleet: world.fleet, rules: LINK_MONITOR_RULES }],
  });
  const answers = async (): Promise<number> =>
    ((await learner.fetchHistory()).events ?? []).filter(
      (each) => each.activityTaskCompletedEventAttributes,
    ).length;
  await expect.poll(answers).toBeGreaterThan(0);
  expect((await learner.describe()).status.name).toBe("RUNNING");
  await learner.terminate();

  // A schedule knows only the beginning of the id that its workflows get. No host starts such a job, because nobody has signed it.
  const schedule = await renewed.schedule.create({
    ...{ scheduleId: `schedule-${world.fleet}`, spec: {} },
    action: {
      ...{ type: "startWorkflow", workflowType: JOB_WORKFLOW, taskQueue: JOB_TASK_QUEUE },
      ...{
        workflowId: cronScheduleId(world.fleet, "nightly"),
        args: [FILE, { fleet: world.fleet }],
      },
    },
  });
  await schedule.trigger();
  const started = async (): Promise<string | undefined> => {
    const [last] = (await schedule.describe()).info.recentActions;
    return last?.action.workflow.workflowId;
  };
  await expect.poll(started).toMatch(/nightly-\d{4}-/);
  const planned = (await started()) ?? "";
  await schedule.delete();
  expect(await own.job(planned).outcome()).toMatchObject({
    ...{ kind: "failed", failure: { code: "NOT_ALLOWED" } },
    message: expect.stringMatching(/signed/),
  });

  const unbound = speaker("mallory", () => Promise.resolve(lifted));
  expect(await startedBy(unbound, "unbound")).toEqual(refusedFor("not bound to this workflow"));
  const bound = await inputOf(jobId);
  const bearer = speaker("mallory", () => Promise.resolve(bound));
  expect(await startedBy(bearer, "bearer")).toEqual(refusedFor("made for another workflow"));

  // Failures are no commands: how they are written is all one to a replay.
  const { payloadCodecs = [] } = createConverters({ keyFile }).worker;
  for (const workflowId of [before, jobId, fleetWorkflowId(world.fleet)]) {
    const history = await world.temporal.workflow.getHandle(workflowId).fetchHistory();
    const options = { workflowBundle: workflowBundle(true), dataConverter: { payloadCodecs } };
    await Worker.runReplayHistory(options, history, workflowId);
  }
});
