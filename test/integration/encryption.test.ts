/** @file A fleet with encryption: everything works, nothing of a job's is readable without the key, and a wrong key is named. */

import { Client, Connection } from "@temporalio/client";
import { historyToJSON } from "@temporalio/common/lib/proto-utils.js";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newKeyLine } from "../../workers/codec/key-ring.ts";
import {
  fleetWorkflowId,
  inboxSignal,
  JOB_TASK_QUEUE,
  JOB_WORKFLOW,
} from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

let folder: string;
let world: World;
let connection: Connection;
let plain: Client;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "orbweaver-encryption-"));
  const keyFile = path.join(folder, "keys");
  await writeFile(keyFile, newKeyLine(), { mode: 0o600 });
  const address = serverAddress();
  world = await startWorld({
    address,
    fleetYaml: SMALL_FLEET,
    keyFile,
    agentArgs: ["--trust", "namespace"],
  });
  connection = await Connection.connect({ address });
  plain = new Client({ connection });
});
afterAll(async () => {
  await connection.close();
  await world.stop();
  removeFolder(folder);
});

/** All of a history with its payloads as text. */
async function readable(jobId: string): Promise<string> {
  const history = await plain.workflow.getHandle(jobId).fetchHistory();
  const json = historyToJSON(history);
  const data = [...json.matchAll(/"data": ?"([^"]+)"/g)].map(([, text = ""]) =>
    Buffer.from(text, "base64").toString("latin1"),
  );
  return [json, ...data].join("\n");
}

it("a gang over two hosts runs and ends, its log is read, and its history says nothing", async () => {
  const { jobId } = await world.orbweaver.submit({
    name: "secret",
    gang: { gpus: 8 },
    // The other ranks wait: one of them could end the gang before rank 0 writes.
    run: { command: ["sh", "-c", 'test "$RANK" = 0 || sleep 60; echo hidden-word; exit 3'] },
  });
  expect(await world.orbweaver.job(jobId).outcome()).toMatchObject({
    kind: "failed",
    failure: { code: "PROCESS_EXITED", exitCode: 3 },
    message: expect.stringContaining("ended with exit code 3"),
  });
  let text = "";
  for await (const chunk of world.orbweaver.job(jobId).logs({ rank: 0 })) text += chunk;
  expect(text).toBe("hidden-word\n");
  const history = await readable(jobId);
  expect(history).toMatch(/binary\/encrypted|YmluYXJ5L2VuY3J5cHRlZA/);
  for (const word of ["hidden-word", "exit code 3", "alpha/a1: "])
    expect(history).not.toContain(word);
});

it("the command line works with the key, and names a missing one with exit status 2", async () => {
  const { jobId } = await world.orbweaver.submit({
    name: "held",
    gang: { gpus: 1 },
    hold: true,
    run: { command: ["true"] },
  });
  for (const verb of ["status", "explain"]) {
    expect(await world.cli([verb, jobId])).toMatchObject({ code: 0 });
  }
  // Lists are as the server's list of workflows, which is behind.
  await expect
    .poll(async () => (await world.cli(["list", "--all", "--json"])).stdout)
    .toContain(jobId);
  const other = path.join(folder, "other");
  await writeFile(other, newKeyLine(), { mode: 0o600 });
  for (const verb of [["list"], ["submit", "--gpus", "1", "--", "true"]]) {
    const flags = ["--encryption-keys", other];
    const { code, stderr } = await world.cli([verb[0] ?? "", ...flags, ...verb.slice(1)]);
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: expect.stringMatching(/ENCRYPTION_KEY_MISSING.*key [0-9a-f]{12}.*ORBWEAVER_ENC/),
    });
  }
});

it("a job that a client without keys has started is refused, trusted or not; only who has the key reads why", async () => {
  const workflowId = `plain-${world.fleet}`;
  const job = await plain.workflow.start(JOB_WORKFLOW, {
    workflowId,
    taskQueue: JOB_TASK_QUEUE,
    args: [
      { name: "plain", gang: { gpus: 1 }, run: { command: ["true"] } },
      { fleet: world.fleet },
    ],
  });
  await expect(job.result()).rejects.toThrow(/Unknown encoding: binary\/encrypted/);
  expect(await world.orbweaver.job(workflowId).outcome()).toMatchObject({
    kind: "failed",
    failure: { code: "NOT_ALLOWED" },
    message: expect.stringContaining("it is not encrypted"),
  });
});

it("a forged payload is junk to a fleet, which goes on", async () => {
  const codec = world.temporal.options.loadedDataConverter.payloadCodecs[1];
  const [whole] = (await codec?.encode([{ metadata: {}, data: new Uint8Array(3) }])) ?? [];
  const forged = { ...whole, data: new Uint8Array(60) };
  await connection.workflowService.signalWorkflowExecution({
    namespace: "default",
    workflowExecution: { workflowId: fleetWorkflowId(world.fleet) },
    signalName: inboxSignal.name,
    input: { payloads: [forged] },
  });
  await world.until("the fleet has a dead letter", ({ deadLetters }) => deadLetters.length > 0);
  const { jobId } = await world.orbweaver.submit({
    name: "after",
    gang: { gpus: 1 },
    run: { command: ["true"] },
  });
  expect(await world.orbweaver.job(jobId).outcome()).toMatchObject({ kind: "completed" });
});

it("a refusal says its code in the open and its message to those with the key", async () => {
  const workflowId = `nonsense-${world.fleet}`;
  await world.temporal.workflow.start(JOB_WORKFLOW, {
    workflowId,
    taskQueue: JOB_TASK_QUEUE,
    args: [{ name: "x", "telltale-key": 1 }, { fleet: world.fleet }],
  });
  expect(await world.orbweaver.job(workflowId).outcome()).toMatchObject({
    kind: "failed",
    failure: { code: "MISCONFIGURED" },
    message: expect.stringContaining("telltale-key"),
  });
  const history = await readable(workflowId);
  expect(history).toContain("Encoded failure");
  expect(history).toContain("MISCONFIGURED");
  expect(history).not.toContain("telltale-key");
});
