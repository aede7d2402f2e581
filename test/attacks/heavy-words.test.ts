/**
 * @file Words as large and as deep as Temporal takes them, with the form of a proof and without: to a fleet, one after the other, to the runs beside it, and to jobs whose history is read
 * afterwards. Runs go on, and their next ones begin.
 */

import { WorkflowUpdateFailedError } from "@temporalio/client";
import { defaultPayloadConverter, RawValue, type Payload } from "@temporalio/common";
import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { DisbelievedSender } from "../../client/disbelieved.ts";
import { tenantId } from "../../domain/values/ids.ts";
import {
  BANDWIDTH_MODEL_WORKFLOW,
  bandwidthModelWorkflowId,
  COLLECTIVE_TUNER_WORKFLOW,
  collectiveTunerWorkflowId,
  disbelievedQuery,
  endLogSessionSignal,
  fleetWorkflowId,
  LINK_MONITOR_WORKFLOW,
  linkMonitorWorkflowId,
  LOBBY_WORKFLOW,
  lobbyWorkflowId,
  LOG_SESSION_WORKFLOW,
  PRESENCE_WORKFLOW,
  presenceWorkflowId,
  PROOF_HEADER,
} from "../../protocol/messages.ts";
import { formatProof, PROVEN_LEARNER_RULES } from "../../protocol/word-proof.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { startedRun } from "./started-run.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

/** The server takes 2 MiB, frames included. */
const MOST_BYTES = 2 * 1024 * 1024 - 200;
const heavy = (): Payload => ({
  metadata: { encoding: Buffer.from("binary/plain") },
  // Nothing that a codec could make smaller.
  data: randomBytes(MOST_BYTES),
});
/** Of the right form, by keys of nobody. */
const forgedProof = (): string =>
  formatProof({
    role: "agent",
    key: `ed25519:${"k".repeat(43)}`,
    atMs: Date.now(),
    nonce: randomBytes(16).toString("base64url"),
    signature: "s".repeat(86),
  });

const LEVELS = 50_000;
const deep = (levels = LEVELS): Payload => ({
  metadata: { encoding: Buffer.from("json/plain") },
  data: Buffer.from("[".repeat(levels) + "]".repeat(levels)),
});

const signal = (
  workflowId: string,
  signalName: string,
  value: Payload,
  {
    hasProof = true,
    sender = "mallory",
  }: { readonly hasProof?: boolean; readonly sender?: string } = {},
) =>
  world.temporal.workflowService.signalWorkflowExecution({
    ...{
      namespace: world.temporal.options.namespace,
      requestId: randomUUID(),
      identity: sender,
    },
    ...{ workflowExecution: { workflowId }, signalName, input: { payloads: [value] } },
    ...(hasProof && {
      header: { fields: { [PROOF_HEADER]: defaultPayloadConverter.toPayload(forgedProof()) } },
    }),
  });

/** The next word leaves when the server has the last one. Fails where it takes no more. */
async function whileSaid(say: () => Promise<unknown>, act: () => Promise<void>): Promise<void> {
  let isOver = false;
  const stream = async (): Promise<void> => {
    while (!isOver) await say();
  };
  await Promise.all([stream(), act().finally(() => (isOver = true))]);
}

const isUnbelieved = async (mallory: string): Promise<boolean> => {
  const { stdout } = await world.cli(["audit", "--json"]);
  const { words } = JSON.parse(stdout) as { readonly words: readonly DisbelievedSender[] };
  return words.some(({ sender, to }) => sender === mallory && to === undefined);
};

const TENANT = tenantId("nobody");
const TOPOLOGY = {
  cluster: "alpha",
  name: "1x2-H100",
  nodes: 1,
  ranks: 2,
  hasNvlink: false,
  hasNvlinkSharp: false,
};
const rules = PROVEN_LEARNER_RULES;
const ATTENDANTS = [
  [PRESENCE_WORKFLOW, "announce", () => presenceWorkflowId(world.fleet, "alpha"), {}],
  [
    LOBBY_WORKFLOW,
    "lobby-news",
    () => lobbyWorkflowId(world.fleet, TENANT),
    { tenant: TENANT, isProofAsked: true },
  ],
  [
    BANDWIDTH_MODEL_WORKFLOW,
    "measured",
    () => bandwidthModelWorkflowId(world.fleet, "alpha"),
    { cluster: "alpha", rules },
  ],
  [LINK_MONITOR_WORKFLOW, "arrived", () => linkMonitorWorkflowId(world.fleet), { rules }],
] as const;
const COUNT = 3;
const REPORT = "report-rewards";

/** A word that fits into a signal, but not into the activity that is to check it, would fail each task of the run. */
it.each(ATTENDANTS)(
  "%s does not believe the largest %s there is, and goes on",
  async (type, name, idOf, input) => {
    const run = await startedRun(world, type, { workflowId: idOf(), ...input });
    await signal(idOf(), name, heavy());
    // A task that fails is tried again at once, and stays open.
    await expect
      .poll(async () => (await run.describe()).raw.pendingWorkflowTask ?? undefined)
      .toBeUndefined();
    expect((await run.describe()).status.name).toBe("RUNNING");
    await run.query(disbelievedQuery);
  },
);

it("a tuner refuses the largest report there is, and answers the next", async () => {
  const workflowId = collectiveTunerWorkflowId(world.fleet, TOPOLOGY);
  const run = await startedRun(world, COLLECTIVE_TUNER_WORKFLOW, {
    ...{ workflowId, topology: TOPOLOGY, rules },
  });
  const numbers = { step: 1, version: 1, minBytes: 1, maxBytes: 1, calls: 1, micros: 1 };
  const more = randomBytes(0.7 * MOST_BYTES).toString("base64");
  const reward = { ...numbers, arm: "auto", collective: "AllReduce", more };
  const order = { hasOverlap: false, run: "r", rewards: [reward] };
  await expect(
    run.executeUpdate<unknown, [unknown, string?]>(REPORT, { args: [order, forgedProof()] }),
  ).rejects.toMatchObject({
    cause: { message: expect.stringContaining("larger ones are not read") as string },
  });
  expect(
    await run.executeUpdate<unknown, [unknown, string?]>(REPORT, {
      args: [{ ...order, rewards: [] }],
    }),
  ).toBeDefined();
});

it("the history of a job that was told heavy words is read by whoever asks", async () => {
  const { jobId } = await world.orbweaver.submit({
    ...{ name: "waits", hold: true },
    ...{ gang: { gpus: 1 }, run: { command: ["true"] } },
  });
  // A page of a history has them all: more than the 4 MiB that Temporal's client takes by itself.
  for (let count = 0; count < COUNT; count += 1) await signal(jobId, "x", heavy());
  const { code, stderr } = await world.cli(["audit", "--job", jobId, "--json"]);
  expect(code, stderr).toBe(0);
  await world.orbweaver.job(jobId).cancel();
});

/** None was ended by the server, which would take all leases with it. */
async function expectUnended(): Promise<void> {
  const ends: string[] = [];
  const query = `WorkflowId = "${fleetWorkflowId(world.fleet)}"`;
  for await (const { status } of world.temporal.workflow.list({ query })) ends.push(status.name);
  expect(ends.length).toBeGreaterThan(0);
  for (const end of ends) expect(["RUNNING", "CONTINUED_AS_NEW"]).toContain(end);
}

/** Of which one in flight is enough: while a task is open, the server keeps 2 MiB of them by default, and fails the task for more. */
it.each([
  { name: "without a proof", hasProof: false, sender: "mallory-unproven" },
  { name: "with the form of one", hasProof: true, sender: "mallory-forger" },
])(
  "a fleet takes orders and starts jobs while deep words come one after the other, $name",
  async ({ hasProof, sender }) => {
    const workflowId = fleetWorkflowId(world.fleet);
    const value = deep();
    await whileSaid(
      () => signal(workflowId, "inbox", value, { hasProof, sender }),
      async () => {
        for (const verb of ["drain", "undrain", "drain", "undrain"]) {
          const { code, stderr } = await world.cli([verb, "alpha/a1"]);
          expect(code, stderr).toBe(0);
        }
        const { jobId } = await world.orbweaver.submit({
          ...{ name: "bystander", tenant: "bystander" },
          ...{ gang: 1, run: { command: ["true"] } },
        });
        await world.temporal.workflow.getHandle(jobId).result();
      },
    );
    await expect.poll(() => isUnbelieved(sender)).toBe(true);
    await expectUnended();
  },
);

const textOf = (bytes: number): Payload => ({
  metadata: { encoding: Buffer.from("json/plain") },
  data: Buffer.from(JSON.stringify("x".repeat(bytes - 2))),
});

/** Of which the largest are not read, and the others asked about. */
it.each([
  { bytes: 100_000, hasProof: true },
  { bytes: 250_000, hasProof: true },
  { bytes: 1_000_000, hasProof: false },
  { bytes: 1_900_000, hasProof: true },
])(
  "a fleet keeps its run, takes orders and starts jobs while words of $bytes bytes come one after the other",
  async ({ bytes, hasProof }) => {
    const value = textOf(bytes);
    await whileSaid(
      () => signal(fleetWorkflowId(world.fleet), "inbox", value, { hasProof }),
      async () => {
        for (const verb of ["drain", "undrain"]) {
          const { code, stderr } = await world.cli([verb, "alpha/a1"]);
          expect(code, stderr).toBe(0);
        }
        for (let jobs = 0; jobs < 3; jobs += 1) {
          const { jobId } = await world.orbweaver.submit({
            ...{ name: "bystander", tenant: "bystander" },
            ...{ gang: 1, run: { command: ["true"] } },
          });
          await world.temporal.workflow.getHandle(jobId).result();
        }
      },
    );
    await expectUnended();
  },
);

it.each([
  { name: "job", more: {} },
  { name: "array", more: { array: { count: 2 } } },
])("a $name that deep and heavy words come to runs to its end", async ({ more }) => {
  const { jobId } = await world.orbweaver.submit({
    ...{ name: "told", hold: true, gang: 1, run: { command: ["true"] } },
    ...more,
  });
  const job = world.temporal.workflow.getHandle(jobId);
  for (const word of ["grant", "grants", "pending", "x"])
    for (const value of [deep(), deep(20 * LEVELS), heavy()]) await signal(jobId, word, value);
  for (const order of ["amend", "hold", "word"])
    await job
      .executeUpdate(order, { args: [RawValue.fromPayload(deep()), forgedProof()] })
      // Some are refused at once, some are answered with null, and nobody believes them.
      .catch((error: unknown) => expect(error).toBeInstanceOf(WorkflowUpdateFailedError));
  await world.orbweaver.job(jobId).release();
  await job.result();
});

it("a log session refuses deep questions, and answers the next", async () => {
  const workflowId = `mallory-${randomUUID()}`;
  const session = await startedRun(world, LOG_SESSION_WORKFLOW, { workflowId, idleMs: 600_000 });
  for (const value of [deep(), deep(20 * LEVELS)]) {
    await signal(workflowId, "x", value);
    await expect(
      session.executeUpdate("read", { args: [RawValue.fromPayload(value)] }),
    ).rejects.toMatchObject({ cause: { type: "BAD_INPUT" } });
  }
  await session.signal(endLogSessionSignal);
  await session.result();
});
