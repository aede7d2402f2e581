/** @file A fleet's worker that was frozen for longer than a workflow task may take wakes to old questions and to news: its history replays. */

import { Worker } from "@temporalio/worker";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createConverters } from "../../workers/codec/converters.ts";
import { fleetWorkflowId, inboxSignal } from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, SMALL_FLEET, startWorld, type World } from "../support/world.ts";

/** Workflow tasks, and sticky task queues, are given up after ten seconds: then questions come with the whole history. */
const FROZEN_MS = 11_300;
const TURNS = 2;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

it("goes on as its history says", async () => {
  const { temporal } = world;
  const submit = (name: string) =>
    world.orbweaver.submit({ name, gang: { gpus: 12 }, run: { command: ["sleep", "600"] } });
  const jobs = [await submit("runs"), await submit("waits")];
  await world.until("one waits", ({ requests, leases }) => requests.size + leases.size === 2);
  const fleet = temporal.workflow.getHandle(fleetWorkflowId(world.fleet));
  const ask = (): Promise<unknown> =>
    temporal
      .withDeadline(Date.now() + 30_000, () => fleet.query("ledger"))
      .catch(() => "nobody answered");
  // A worker that is frozen inside an activation dies when it wakes: its sandbox has a time limit, and Node 20 does not survive that.
  const atRest = async (): Promise<void> => {
    while ((await fleet.describe()).raw.pendingWorkflowTask) await sleep(50);
  };
  const frozenAtRest = async (): Promise<void> => {
    for (;;) {
      await atRest();
      world.process("fleet").kill("SIGSTOP");
      // A task may have come in between.
      if (!(await fleet.describe()).raw.pendingWorkflowTask) return;
      world.process("fleet").kill("SIGCONT");
    }
  };
  for (let turn = 0; turn < TURNS; turn += 1) {
    await frozenAtRest();
    const asked: Promise<unknown>[] = [];
    for (const untilMs = Date.now() + FROZEN_MS; Date.now() < untilMs; await sleep(200)) {
      asked.push(ask());
      if (asked.length % 5 === 0) await fleet.signal(inboxSignal, [{ kind: "junk" } as never]);
    }
    world.process("fleet").kill("SIGCONT");
    await Promise.all(asked);
    await world.until("it answers", ({ requests }) => requests.size === 1);
  }
  for (const { jobId } of jobs) await temporal.workflow.getHandle(jobId).cancel();
  await world.until("nothing runs", ({ requests, leases }) => requests.size + leases.size === 0);
  const history = await fleet.fetchHistory();
  const failures = (history.events ?? []).flatMap(
    ({ workflowTaskFailedEventAttributes: failed }) => failed?.failure?.message ?? [],
  );
  // A task may be refused as too old; none may fail for a state that is in no history.
  expect(failures.filter((message) => message.includes("TMPRL1100"))).toEqual([]);
  const { worker: dataConverter } = createConverters();
  const workflowBundle = { codePath: path.join(ROOT, "dist/workflow-bundle.js") };
  await Worker.runReplayHistory({ workflowBundle, dataConverter }, history);
});
