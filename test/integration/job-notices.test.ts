/** @file A job that names addresses: what the fleet lists is told of it, signed, by the console; another one is refused at submit. */

import { createHmac } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { JobFile } from "../../client/index.ts";
import { startLiveConsole, type LiveConsole } from "../support/live-console.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

interface Told {
  readonly url: string;
  readonly body: string;
  readonly signature: string;
}

const told: Told[] = [];
let hooks: Server;
let base: string;
let world: World;
let shown: LiveConsole;

beforeAll(async () => {
  hooks = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const signature = String(request.headers["x-orbweaver-signature"] ?? "");
      told.push({ url: request.url ?? "", body, signature });
      response.writeHead(204).end();
    });
  }).listen(0, "127.0.0.1");
  await once(hooks, "listening");
  base = `http://127.0.0.1:${String((hooks.address() as AddressInfo).port)}`;
  const fleetYaml = `${SMALL_FLEET}jobNotices:
  - { address: "${base}/team", secretFile: hook.secret }
  - { address: "${base}/slack" }
`;
  world = await startWorld({ address: serverAddress(), fleetYaml });
  const file = path.join(world.stateDir, "fleet.yaml");
  writeFileSync(file, fleetYaml);
  writeFileSync(path.join(world.stateDir, "hook.secret"), "s3cret");
  shown = await startLiveConsole(world, ["--notify", file]);
});
afterAll(async () => {
  await shown.kill();
  await world.stop();
  hooks.close();
});

const job = (name: string, line: string, notify: JobFile["notify"]): JobFile => {
  return { name, gang: 12, run: { command: ["sh", "-c", line], grace: "0s" }, notify };
};
const eventsAt = (url: string): readonly string[] =>
  told
    .filter((each) => each.url === url)
    .map(({ body }) => {
      const document = JSON.parse(body) as { readonly event: string; readonly job: { id: string } };
      return `${document.event} ${document.job.id}`;
    });

it("tells the listed addresses what each asks for, webhooks with a signature", async () => {
  const go = path.join(world.stateDir, "go");
  const submitted = await world.orbweaver.submit(
    job("first", `until [ -e '${go}' ]; do sleep 0.2; done`, [
      { webhook: `${base}/team/a`, on: ["started", "ended"] },
      { webhook: `${base}/team/b`, on: ["failed"] },
      { slack: `${base}/slack/c`, on: ["ended"] },
    ]),
  );
  const first = submitted.jobId;
  await world.until("the first runs", ({ leases }) =>
    [...leases.values()].some(({ state }) => state === "held"),
  );
  const waits = await world.orbweaver.submit(
    job("waits", "true", [{ webhook: `${base}/team/d`, on: ["waiting"], waiting: "1s" }]),
  );
  await expect.poll(() => eventsAt("/team/d")).toHaveLength(1);
  writeFileSync(go, "");
  await world.temporal.workflow.getHandle(first).result();
  await expect
    .poll(() => [told.length, eventsAt("/team/a").length, eventsAt("/team/d").length])
    .toEqual([4, 2, 1]);
  expect(eventsAt("/team/a")).toEqual([`started ${first}`, `ended ${first}`]);
  expect(eventsAt("/team/d")).toEqual([`waiting ${waits.jobId}`]);
  const message = told.find(({ url }) => url === "/slack/c");
  expect(JSON.parse(message?.body ?? "")).toEqual({ text: `${world.fleet}: ${first} completed` });
  for (const { body, signature } of told.filter(({ url }) => url.startsWith("/team"))) {
    const [, seconds = "", sum] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(signature) ?? [];
    expect(sum).toBe(createHmac("sha256", "s3cret").update(`${seconds}.${body}`).digest("hex"));
  }
});

it("refuses an address that the fleet does not list, and says the remedy", async () => {
  const file = path.join(world.stateDir, "job.yaml");
  writeFileSync(
    file,
    `name: elsewhere\ngang: 1\nrun: { command: "true" }\nnotify: [{ webhook: "${base}/teams/x", on: [ended] }]\n`,
  );
  const { code, stderr } = await world.cli(["submit", file]);
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /BAD_INPUT: notify: the job names addresses at http:\/\/127\.0\.0\.1, and/,
  );
  expect(stderr).toMatch(/lets job files name http:\S+\/team, http:\S+\/slack\./);
  expect(stderr).toMatch(/list it under jobNotices in the fleet file/);
});
