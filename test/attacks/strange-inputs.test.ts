/** @file Anybody who reaches the frontend starts workflows of Orbweaver's types, with anything. They end at once and say why; their tasks do not fail for ever. */

import { RawValue } from "@temporalio/common";
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  BANDWIDTH_MODEL_WORKFLOW,
  COLLECTIVE_TUNER_WORKFLOW,
  FLEET_TASK_QUEUE,
  FLEET_WORKFLOW,
  JOB_TASK_QUEUE,
  JOB_WORKFLOW,
  LINK_MONITOR_WORKFLOW,
  LOBBY_WORKFLOW,
  LOG_SESSION_WORKFLOW,
  PRESENCE_WORKFLOW,
  SESSION_WORKFLOW,
  SWEEP_WORKFLOW,
} from "../../protocol/messages.ts";
import { CRON_WORKFLOW } from "../../protocol/cron.ts";
import { linksQuery } from "../../protocol/link-messages.ts";
import { TIMED_DRAIN_WORKFLOW } from "../../protocol/timed-drain.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

const deep = (levels: number): RawValue =>
  RawValue.fromPayload({
    metadata: { encoding: Buffer.from("json/plain") },
    data: Buffer.from("[".repeat(levels) + "]".repeat(levels)),
  });
const INPUTS: readonly unknown[] = [null, "junk", [1], {}, deep(50_000), deep(1_000_000)];

describe.each([
  [FLEET_WORKFLOW, { name: "nobodys", ledger: {} }],
  [PRESENCE_WORKFLOW, { fleet: "nobodys", cluster: "alpha", agents: [null] }],
  [LOBBY_WORKFLOW, { fleet: "nobodys", tenant: "t", carried: { queues: 1 } }],
  [SWEEP_WORKFLOW, { fleet: "nobodys", jobId: "a", lease: "lease-1", hosts: "all" }],
  [SESSION_WORKFLOW, { fleet: "nobodys", order: null }],
  [LOG_SESSION_WORKFLOW, { fleet: "nobodys", idleMs: "soon" }],
  [LINK_MONITOR_WORKFLOW, { fleet: "nobodys", memory: 1 }],
  [BANDWIDTH_MODEL_WORKFLOW, { fleet: "nobodys", cluster: "alpha", memory: 1 }],
  [COLLECTIVE_TUNER_WORKFLOW, { fleet: "nobodys", topology: null }],
  [CRON_WORKFLOW, { fleet: "nobodys" }],
  [TIMED_DRAIN_WORKFLOW, { fleetWorkflowId: "orbweaver-fleet-nobodys" }],
  [JOB_WORKFLOW, { run: 1 }],
] as const)("a %s that somebody starts with junk", (type, almost) => {
  it("ends, and says why", async () => {
    const ends = [...INPUTS, almost].map(async (input) => {
      const run = await world.temporal.workflow.start(type, {
        workflowId: `mallory-${randomUUID()}`,
        taskQueue: type === FLEET_WORKFLOW ? FLEET_TASK_QUEUE : JOB_TASK_QUEUE,
        args: [input],
      });
      return await run.result().then(
        () => "ended well",
        (error: unknown) => (error as { readonly cause?: { readonly type?: unknown } }).cause?.type,
      );
    });
    for (const end of await Promise.all(ends))
      expect(end).toBe(type === JOB_WORKFLOW ? "MISCONFIGURED" : "BAD_INPUT");
  });
});

it("each run is ended that the server starts for a cron of somebody's", async () => {
  const workflowId = `mallory-${randomUUID()}`;
  const run = await world.temporal.workflow.start(PRESENCE_WORKFLOW, {
    ...{ workflowId, taskQueue: JOB_TASK_QUEUE, args: [null], cronSchedule: "@every 1s" },
  });
  const failed = async (): Promise<number> => {
    const { count } = await world.temporal.workflow.count(
      `WorkflowId = "${workflowId}" AND ExecutionStatus = "Failed"`,
    );
    return count;
  };
  await expect.poll(failed).toBeGreaterThan(2);
  await world.temporal.workflow.getHandle(run.workflowId).terminate("end of test");
});

it("an input that no key here opens waits for a worker that has it", async () => {
  const sealed = RawValue.fromPayload({
    metadata: { encoding: Buffer.from("binary/encrypted"), "encryption-key-id": Buffer.from("k") },
    data: Buffer.from("sealed"),
  });
  const run = await world.temporal.workflow.start(PRESENCE_WORKFLOW, {
    ...{ workflowId: `mallory-${randomUUID()}`, taskQueue: JOB_TASK_QUEUE, args: [sealed] },
  });
  await expect
    .poll(async () => (await run.describe()).raw.pendingWorkflowTask?.attempt ?? 0)
    .toBeGreaterThan(1);
  expect((await run.describe()).status.name).toBe("RUNNING");
  await run.terminate("end of test");
});

it.each([null, ["here"], ["here", 1], "here-there", { 0: "here", 1: "there" }])(
  "a link monitor refuses a probe between %j, and goes on",
  async (between) => {
    const run = await world.temporal.workflow.start(LINK_MONITOR_WORKFLOW, {
      workflowId: `mallory-${randomUUID()}`,
      taskQueue: JOB_TASK_QUEUE,
      args: [{ fleet: world.fleet }],
    });
    await expect(run.executeUpdate("probe", { args: [{ between }] })).rejects.toMatchObject({
      cause: { type: "BAD_INPUT" },
    });
    expect(await run.query(linksQuery)).toMatchObject({ fleet: world.fleet });
    await run.terminate("end of test");
  },
);
