/** @file Processors and memory as dimensions of placement, on a live fleet with stated hosts: by the command line, from `submit` to the launch's limits. */

import { writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { cliOf } from "../support/own-cli.ts";
import { removeFolder } from "../support/remove-folder.ts";

const FLEET = "rich";
const FLEET_FILE = `name: ${FLEET}
clusters:
  - name: lab
    site: here
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: "h[1-2]", gpus: 4, type: H100, cpus: 16, hostMemory: 8 GiB }
`;
let dir = "";
const cli = cliOf(FLEET, () => join(dir, "state"));

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "orbweaver-resources-"));
  const file = join(dir, "fleet.yaml");
  writeFileSync(file, FLEET_FILE);
  await cli("up", "--always-on", file);
});
afterAll(async () => {
  await cli("down", "--stop-jobs").catch(() => undefined);
  removeFolder(dir);
});

async function submit(name: string, resources: object | undefined, command: readonly string[]) {
  const file = join(dir, `${name}.yaml`);
  const job = {
    ...{ name, idempotencyKey: name, gang: 1, run: { command } },
    ...(resources !== undefined && { resources }),
  };
  writeFileSync(file, JSON.stringify(job));
  await cli("submit", file);
}

interface Explained {
  readonly view: { readonly pending?: { readonly code: string; readonly numbers: object } };
}

const explained = async (job: string): Promise<Explained> =>
  JSON.parse(await cli("explain", job, "--json")) as Explained;
const hostOf = async (job: string): Promise<string | undefined> =>
  /lab\/h[12]/.exec(await cli("status", job, "--json"))?.[0];

async function until<T>(ask: () => Promise<T>, is: (answer: T) => boolean): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (is(answer)) return answer;
    await new Promise((wake) => setTimeout(wake, 100));
  }
}

const ended = (job: string) =>
  until(
    () => cli("status", job),
    (text) => text.includes("completed"),
  );

it("jobs that take most of a host's memory run on a host each, the next waits with numbers, and starts when one ends", async () => {
  const most = { perGpu: { memory: "6 GiB" } };
  await submit("first", most, ["sleep", "600"]);
  await submit("second", most, ["sleep", "600"]);
  const first = await until(() => hostOf("first"), Boolean);
  const second = await until(() => hostOf("second"), Boolean);
  expect([first, second].sort()).toEqual(["lab/h1", "lab/h2"]);
  await submit("third", most, ["true"]);
  const waits = await until(
    () => explained("third"),
    ({ view: { pending } }) => pending !== undefined && pending.code !== "PendingEvaluation",
  );
  expect(waits.view.pending).toMatchObject({
    code: "WaitingForResources",
    numbers: { idleGpus: 6, largestUnleasedGpus: 0, memoryGiBForGpu: 6 },
  });
  // Each host has the share of one GPU left.
  await submit("small", undefined, ["true"]);
  await ended("small");
  await cli("cancel", "first");
  await ended("third");
});

it("what no host has in all is refused at submit, with the largest", async () => {
  await expect(submit("huge", { perGpu: { memory: "9 GiB" } }, ["true"])).rejects.toThrow(
    /the largest host of this fleet has 8 GiB \(lab\/h[12]\)/,
  );
});
