/** @file A payload codec at clients, workers and agents alike: nothing readable is in a job's history, and everything works. */

import { Client, Connection } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { OrbweaverClient } from "../../client/index.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

/** Turns every byte over: not secret, but unreadable for whoever lacks it. */
const CODEC = `
const over = (data) => data.map((byte) => byte ^ 0xff);
const NAME = new TextEncoder().encode("binary/overturned");
export const payloadCodecs = [{
  encode: async (payloads) => payloads.map((payload) => ({
    metadata: { encoding: NAME, inner: payload.metadata.encoding },
    data: over(payload.data ?? new Uint8Array()),
  })),
  decode: async (payloads) => payloads.map((payload) =>
    new TextDecoder().decode(payload.metadata?.encoding) === "binary/overturned"
      ? { metadata: { encoding: payload.metadata.inner }, data: over(payload.data) }
      : payload),
}];
`;

let folder: string;
let world: World;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "orbweaver-codec-"));
  const file = path.join(folder, "codec.mjs");
  await writeFile(file, CODEC);
  const { payloadCodecs } = (await import(pathToFileURL(file).href)) as {
    payloadCodecs: PayloadCodec[];
  };
  world = await startWorld({
    address: serverAddress(),
    fleetYaml: SMALL_FLEET,
    codec: { file, payloadCodecs },
  });
});
afterAll(async () => {
  await world.stop();
  removeFolder(folder);
});

it("a gang over two hosts runs, its logs are read, and its history is unreadable without the codec", async () => {
  const { jobId } = await world.orbweaver.submit({
    name: "secret",
    gang: { gpus: 8 },
    run: { command: ["echo", "hidden-word"] },
  });
  expect(await world.temporal.workflow.getHandle(jobId).result()).toMatchObject({ gpus: 8 });
  let text = "";
  for await (const chunk of world.orbweaver.job(jobId).logs({ rank: 0 })) text += chunk;
  expect(text).toBe("hidden-word\n");
  const { events } = await world.temporal.workflow.getHandle(jobId).fetchHistory();
  const payloads = (events ?? []).flatMap(
    (event) => event.workflowExecutionStartedEventAttributes?.input?.payloads ?? [],
  );
  expect(payloads.length).toBe(2);
  for (const { data } of payloads)
    expect(Buffer.from(data ?? []).toString("latin1")).not.toContain("secret");
  const connection = await Connection.connect({ address: serverAddress() });
  const plain = new OrbweaverClient(new Client({ connection }), { fleet: world.fleet });
  await expect(plain.job(jobId).result()).rejects.toThrow();
  await connection.close();
});
