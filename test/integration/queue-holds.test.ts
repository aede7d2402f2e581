/** @file Holds of the queue on a live fleet: by the command, through releases, and over a restart of the fleet's own run. */

import { writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { userName } from "../../access/own-identity.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";

const FLEET = `
name: small
tenants:
  - { name: red }
  - { name: blue }
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: a1, gpus: 4, type: H100 }
`;
const POLL = { interval: 200 };

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
});
afterAll(() => world.stop());

async function orbweaver(...words: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await world.cli(words);
  expect({ code, stderr }, words.join(" ")).toEqual({ code: 0, stderr });
  return stdout;
}

async function refusal(...words: readonly string[]): Promise<string> {
  const { code, stderr } = await world.cli(words);
  return `${String(code)} ${stderr}`;
}

const json = async (...words: readonly string[]): Promise<unknown> =>
  JSON.parse(await orbweaver(...words, "--json"));

let count = 0;
async function submit(tenant: string, script = "true"): Promise<string> {
  const { jobId } = await world.orbweaver.submit({
    name: tenant,
    idempotencyKey: `${tenant}-${String((count += 1))}-${world.fleet}`,
    tenant,
    gang: 1,
    run: { command: ["sh", "-c", script], grace: "1s" },
  });
  return jobId;
}

const codeOf = async (id: string): Promise<string | undefined> =>
  (await world.orbweaver.job(id).view()).pending?.code;

describe("queue hold", () => {
  it("of a tenant lets its jobs wait, others start, and what runs go on; release lets them start", async () => {
    const go = path.join(world.stateDir, "go");
    const running = await submit("red", `until [ -e ${go} ]; do sleep 0.1; done`);
    await world.until("it runs", ({ leases }) => leases.size === 1);
    expect(await json("queue", "hold", "--tenant", "red", "--reason", "audit")).toEqual({
      queue: { kind: "tenant", tenant: "red" },
      name: "tenant red",
      isDraining: false,
      waiting: 0,
      running: 1,
    });
    const held = await submit("red");
    await world.orbweaver.job(await submit("blue")).result();
    await expect.poll(() => codeOf(held), POLL).toBe("QueueOnHold");
    const by = userName();
    expect(await orbweaver("explain", held)).toContain(`waits because ${by} has held tenant red`);
    expect(await orbweaver("queue")).toMatch(
      new RegExp(`tenant red: held by ${by} for \\d+s \\(audit\\)`),
    );
    const hold = { queue: { kind: "tenant", tenant: "red" }, by, reason: "audit" };
    expect(await json("queue")).toMatchObject({ holds: [{ ...hold, isDraining: false }] });
    expect(await orbweaver("fleet", "show")).toMatch(/Held queues:\n {2}tenant red: held by /);
    expect(await json("fleet", "show")).toMatchObject({ holds: [hold] });
    await writeFile(go, "");
    expect(await world.orbweaver.job(running).result()).toMatchObject({});
    expect(await codeOf(held)).toBe("QueueOnHold");
    expect(await orbweaver("queue", "release", "--tenant", "red")).toBe("tenant red  released\n");
    await world.orbweaver.job(held).result();
  });

  it("of the whole fleet stays over runs of the fleet's workflow and a change of its description", async () => {
    expect(await orbweaver("queue", "hold", "--drain")).toMatch(
      /^the whole fleet {2}held; \d+ jobs? of it waits?, /,
    );
    await orbweaver("drain", "alpha/a1"); // an order ends the run, and the next one has the ledger
    await orbweaver("undrain", "alpha/a1");
    const held = await submit("blue");
    await expect.poll(() => codeOf(held), POLL).toBe("QueueOnHold");
    expect(await orbweaver("queue", "hold", "--class", "inference")).toMatch(/^class inference /);
    expect(await json("queue", "release")).toEqual({
      queue: { kind: "fleet" },
      name: "the whole fleet",
    });
    await world.orbweaver.job(held).result();
    await orbweaver("queue", "release", "--class", "inference");
  });

  it("is refused with what is wrong", async () => {
    expect(await refusal("queue", "release", "--tenant", "red")).toMatch(
      /^3 error NOT_FOUND: tenant red is not held in fleet .*; nothing of it is/,
    );
    expect(await refusal("queue", "hold", "--tenant", "a b")).toMatch(
      /^2 error BAD_INPUT: --tenant/,
    );
    expect(await refusal("queue", "hold", "--class", "batch")).toMatch(
      /^2 error BAD_INPUT: .*--class/,
    );
    expect(await refusal("queue", "hold", "--class", "training", "--tenant", "x")).toMatch(
      /^2 error BAD_INPUT: .*cannot be used with/,
    );
  });
});
