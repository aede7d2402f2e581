/** @file Drains at a time, and rolling reboots, on a live fleet of three hosts with an agent each. */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { HostId } from "../../domain/values/ids.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

const CLUSTERS = ["east", "north", "west"];
const cluster = (name: string): string => `
  - name: ${name}
    site: ${name}
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: h1, gpus: 2, type: H100 }
`;
const POLL = { interval: 200 };

let world: World;
let notes: string;
beforeAll(async () => {
  notes = mkdtempSync(path.join(tmpdir(), "orbweaver-reboots-"));
  const fleetYaml = `name: rebooted\nclusters:${CLUSTERS.map(cluster).join("")}`;
  world = await startWorld({ address: serverAddress(), fleetYaml });
});
afterAll(async () => {
  await world.stop();
  removeFolder(notes);
});

const drained = async (): Promise<readonly HostId[]> =>
  [...(await world.ledger()).hosts].flatMap(([host, { isDrained }]) => (isDrained ? [host] : []));
const planned = async (): Promise<readonly unknown[]> => await world.orbweaver.plannedDrains();
async function orbweaver(...words: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await world.cli(words);
  expect({ code, stderr }, words.join(" ")).toEqual({ code: 0, stderr });
  return stdout;
}

describe("drain --at", () => {
  it("drains when the time has come, is listed until then, and undrain calls it off", async () => {
    const later = ["drain", "west/h1", "--at", "+1h", "--reason", "new fans"];
    expect(await orbweaver(...later)).toContain("west/h1  will be drained on ");
    await orbweaver("drain", "east/h1", "--at", "+8s", "--json");
    await expect.poll(drained, POLL).toEqual(["east/h1"]);
    await expect.poll(planned, POLL).toMatchObject([{ host: "west/h1", reason: "new fans" }]);
    expect(await orbweaver("fleet", "show")).toMatch(
      /Planned drains:\n {2}west\/h1 on .*: new fans/,
    );
    await orbweaver("undrain", "west/h1", "east/h1");
    await expect.poll(planned, POLL).toEqual([]);
    expect(await drained()).toEqual([]);
  });

  it("refuses a time that has passed, and a host that is not there", async () => {
    const past = await world.cli(["drain", "west/h1", "--at", "2020-01-01T10:00"]);
    expect(past).toMatchObject({ code: 2, stderr: expect.stringContaining("has passed") });
    const unknown = await world.cli(["drain", "west/h9", "--at", "+1h"]);
    expect(unknown.code).toBe(3);
  });
});

/** Reboots as the operator's command asks for them, as a host does: its agent dies, and another comes up. */
async function rebootAsked(file: string, until: Promise<unknown>): Promise<number> {
  let isOver = false;
  const over = (): void => void (isOver = true);
  until.then(over, over);
  const asked = (): readonly string[] =>
    readFileSync(file, { encoding: "utf8", flag: "a+" }).split("\n").filter(Boolean);
  let done = 0;
  let most = 0;
  while (!isOver) {
    most = Math.max(most, (await drained()).length);
    const [next] = asked().slice(done);
    if (next === undefined) {
      await new Promise((resolve) => setTimeout(resolve, 100));
      continue;
    }
    done += 1;
    const name = next.split("/")[0] ?? "";
    await world.kill(`agent-${name}`);
    await world.startAgent(name);
  }
  expect([...asked()].sort()).toEqual(CLUSTERS.map((name) => `${name}/h1`));
  return most;
}

describe("drain --reboot", () => {
  const hosts = CLUSTERS.map((name) => `${name}/h1`);

  it("reboots each host once nothing holds its GPUs, never more than are named at a time", async () => {
    const file = path.join(notes, "asked");
    const go = path.join(notes, "go");
    const { jobId } = await world.orbweaver.submit({
      name: "first",
      gang: 2,
      constraints: { clusters: ["east"] },
      run: { command: ["sh", "-c", `until [ -e ${go} ]; do sleep 0.1; done`], launch: "per-host" },
    });
    await world.until("the job runs", ({ leases }) => leases.size > 0);
    const words = ["drain", ...hosts, "--reboot", "--parallel", "2", "--json"];
    const running = world.cli([...words, "--command", `echo $ORBWEAVER_HOST >> ${file}`]);
    const [most] = await Promise.all([
      rebootAsked(file, running),
      world
        .until(
          "it is waited for beside another host",
          ({ hosts: now }) => [...now.values()].filter(({ isDrained }) => isDrained).length === 2,
        )
        .finally(() => writeFileSync(go, "")),
    ]);
    // That two were drained at once, the fleet has just said.
    expect(most).toBeLessThanOrEqual(2);
    const { code, stdout, stderr } = await running;
    expect({ code, stderr }).toEqual({ code: 0, stderr });
    expect(JSON.parse(stdout)).toMatchObject({ failed: [], left: [] });
    expect(stderr).toContain("east/h1  drained; 1 lease to end");
    // It was not disturbed.
    expect(await world.orbweaver.job(jobId).outcome()).toMatchObject({ kind: "completed" });
    expect((await world.orbweaver.job(jobId).view()).attempts).toHaveLength(1);
    expect(await drained()).toEqual([]);
  });

  it("begins no further host once one has failed, and leaves that one drained", async () => {
    const words = ["drain", ...hosts, "--reboot", "--command", "exit 3", "--json"];
    const { code, stdout } = await world.cli(words);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toEqual({
      back: [],
      failed: [{ host: "east/h1", why: "its reboot command ended with status 3" }],
      left: ["north/h1", "west/h1"],
    });
    expect(await drained()).toEqual(["east/h1"]);
  });

  it("refuses a host that is drained for another reason, and asks for a command", async () => {
    await orbweaver("drain", "west/h1", "--reason", "bad fan");
    const refused = await world.cli(["drain", "west/h1", "--reboot", "--command", "true"]);
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining("another reason") });
    expect(await world.cli(["drain", "east/h1", "--reboot"])).toMatchObject({ code: 2 });
    expect(await world.cli(["drain", "east/h1", "--parallel", "2"])).toMatchObject({ code: 2 });
  });
});
