/** @file The workflow of a lobby on a real server, with its fleet and its jobs played by the test: words in an order that they seldom have. */

import { Client } from "@temporalio/client";
import { DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import { randomBytes } from "node:crypto";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { LobbyRow } from "../../domain/lease/lobby.ts";
import { jobId, runId, tenantId } from "../../domain/values/ids.ts";
import type { CallOrder } from "../../protocol/lobby-contract.ts";
import { LOBBY_WORKFLOW, lobbyLeaveSignal, lobbyNewsSignal } from "../../protocol/messages.ts";
import { recordHistories } from "../support/record-histories.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT } from "../support/world.ts";

const NAME = `calls-${randomBytes(4).toString("hex")}`;
const RED = tenantId("red");
const calls: CallOrder[] = [];

let connection: NativeConnection;
let client: Client;
let worker: Worker;
let running: Promise<void>;

beforeAll(async () => {
  Runtime.install({ logger: new DefaultLogger("ERROR") });
  connection = await NativeConnection.connect({ address: serverAddress() });
  client = new Client({ connection });
  worker = await Worker.create({
    connection,
    taskQueue: NAME,
    workflowBundle: { codePath: path.join(ROOT, "dist/workflow-bundle.js") },
    activities: {
      callIn: (orders: readonly CallOrder[]) => {
        calls.push(...orders);
        return Promise.resolve({ gone: [] });
      },
      tellFleet: () => Promise.resolve({ kind: "delivered" }),
    },
  });
  running = worker.run();
});
afterAll(async () => {
  worker.shutdown();
  await running;
  await connection.close();
});

const row = (number: number, seq: number): LobbyRow => ({
  jobId: jobId(`${NAME}-${number}`),
  runId: runId(`run-${number}`),
  seq,
  class: "training",
  priority: 0,
  submittedAtMs: number,
  gpus: 1,
  round: 0,
});

const called = (): readonly unknown[] =>
  calls.map(({ jobId: job, seq, credit }) => ({ job, seq, credit }));

/** docs/decisions/0244. */
it("frees the credit of a call that a further request of the job has overtaken, when the job leaves under the number that was called", async () => {
  const lobby = await client.workflow.start(LOBBY_WORKFLOW, {
    taskQueue: NAME,
    workflowId: `${NAME}-lobby`,
    args: [{ fleet: NAME, tenant: RED }],
  });
  const about = { fleet: NAME, tenant: RED, credits: [] };
  const credits = [{ number: 7, class: "training" }] as const;
  const first = row(1, 1);
  const further = row(1, 2);
  await lobby.signal(lobbyNewsSignal, { ...about, rows: [first, row(2, 1)], credits });
  await expect.poll(called).toEqual([{ job: first.jobId, seq: 1, credit: 7 }]);
  await lobby.signal(lobbyNewsSignal, { ...about, rows: [further] });
  await lobby.signal(lobbyLeaveSignal, {
    jobId: first.jobId,
    runId: first.runId,
    seq: 1,
    class: "training",
  });
  await expect.poll(() => called().slice(1)).toEqual([{ job: first.jobId, seq: 2, credit: 7 }]);
  await recordHistories(client, NAME);
  await lobby.terminate();
});
