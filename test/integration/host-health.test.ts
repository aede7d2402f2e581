/**
 * @file Hosts that drain themselves, on a live fleet: one on which jobs of different tenants fail fast in a row, and those of an agent whose
 * check fails. Both by the operators' own words, so `undrain` works as ever.
 */

import { rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LEAST_HOSTS } from "../../agent/health/set-aside.ts";
import { HEALTH_VARIABLE } from "../../workers/health-file.ts";
import { cliOf } from "../support/own-cli.ts";
import { removeFolder } from "../support/remove-folder.ts";

const FLEET = "healthy";
const HOST = "lab/h1";
/** As few as may be for one to be set aside. */
const HOSTS = LEAST_HOSTS;
const FLEET_FILE = `name: ${FLEET}
clusters:
  - name: lab
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "h[1-${String(HOSTS)}]", gpus: 2, type: H100 }
`;
let dir = "";
let good = "";
const cli = cliOf(FLEET, () => join(dir, "state"));

interface Shown {
  readonly clusters: readonly {
    readonly hosts: readonly {
      readonly id: string;
      readonly isDrained?: boolean;
      readonly drainReason?: string;
    }[];
  }[];
}

const hosts = async () =>
  (JSON.parse(await cli("fleet", "show", "--json")) as Shown).clusters.flatMap(
    (each) => each.hosts,
  );

/** Asks until the hosts are so. */
async function until(are: (shown: Awaited<ReturnType<typeof hosts>>) => boolean) {
  for (;;) {
    const shown = await hosts();
    if (are(shown)) return shown;
    await new Promise((wake) => setTimeout(wake, 100));
  }
}

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "orbweaver-health-"));
  good = join(dir, "good");
  writeFileSync(good, "");
  writeFileSync(join(dir, "bad"), "none");
  writeFileSync(
    join(dir, "health.yaml"),
    JSON.stringify({
      ...{ check: ["test", "-e", good], every: "200ms", timeout: "1m" },
      prologue: ["sh", "-c", `! grep -qx "$ORBWEAVER_HOST" ${join(dir, "bad")}`],
    }),
  );
  process.env[HEALTH_VARIABLE] = join(dir, "health.yaml");
  const file = join(dir, "fleet.yaml");
  writeFileSync(file, FLEET_FILE);
  await cli("up", "--always-on", file);
});
afterAll(async () => {
  Reflect.deleteProperty(process.env, HEALTH_VARIABLE);
  await cli("down", "--stop-jobs").catch(() => undefined);
  removeFolder(dir);
});

/** Jobs of two tenants on this host alone that fail at once, in a row. */
async function failOn(host: string): Promise<void> {
  for (const [name, tenant] of [
    ["one", "red"],
    ["two", "red"],
    ["three", "blue"],
  ] as const) {
    const key = `${name}-${host.replace("/", "-")}`;
    const file = join(dir, `${key}.yaml`);
    const job = {
      name,
      tenant,
      idempotencyKey: key,
      gang: 1,
      constraints: { hosts: [host] },
      run: { command: ["sh", "-c", "exit 3"] },
    };
    writeFileSync(file, JSON.stringify(job));
    await cli("submit", "--wait", file).catch(() => undefined);
  }
}

it("a host on which jobs of two tenants fail fast in a row is drained, with the evidence, until it is undrained", async () => {
  await failOn(HOST);
  const shown = await until((all) => all.some(({ isDrained }) => isDrained === true));
  expect(shown.filter(({ isDrained }) => isDrained === true)).toMatchObject([
    {
      id: HOST,
      drainReason: expect.stringMatching(
        /^set aside at .*Z: 3 jobs of 2 tenants .* one-lab-h1 of red PROCESS_EXITED after .* three-lab-h1 of blue/,
      ) as string,
    },
  ]);
  expect(await cli("fleet", "show")).toMatch(/Drained hosts:\n +lab\/h1: set aside at /);
  await cli("undrain", HOST);
  await until((all) => all.every(({ isDrained }) => isDrained !== true));
});

it("a host whose prologue fails refuses the job by name, and is set aside until it is undrained", async () => {
  writeFileSync(join(dir, "bad"), HOST);
  const job = join(dir, "refused.yaml");
  const constraints = { hosts: [HOST] };
  const run = { command: ["true"] };
  writeFileSync(job, JSON.stringify({ name: "refused", gang: 1, constraints, run }));
  await cli("submit", "--key", "refused", job);
  const shown = await until((all) => all.some(({ isDrained }) => isDrained === true));
  expect(shown.filter(({ isDrained }) => isDrained === true)).toMatchObject([
    {
      id: HOST,
      drainReason: expect.stringMatching(
        /^set aside at .*Z: the prologue of lease-\d+ failed: sh ended with exit code 1$/,
      ) as string,
    },
  ]);
  await expect.poll(() => cli("status", "refused")).toContain("its prologue failed");
  writeFileSync(join(dir, "bad"), "none");
  await cli("undrain", HOST);
  await until((all) => all.every(({ isDrained }) => isDrained !== true));
  await cli("cancel", "refused").catch(() => undefined);
  await cli("submit", "--wait", "--key", "accepted", job);
});

it("where no more hosts may be set aside, one whose prologue fails rests, and the job costs no further run", async () => {
  // Hosts of which nothing is on its way: what was found of the first one may still be looked at.
  const [one, two] = ["lab/h3", "lab/h4"];
  writeFileSync(join(dir, "bad"), `${one}\n${two}\n`);
  const job = join(dir, "resting.yaml");
  const constraints = { hosts: [one, two] };
  const run = { command: ["true"] };
  writeFileSync(job, JSON.stringify({ name: "resting", gang: 4, constraints, run }));
  await cli("submit", "--key", "resting", job);
  // Where a drain waited for the end of a cycle, both may be set aside until one gives way.
  await until((all) => {
    const reasons = all.flatMap(({ isDrained, drainReason = "" }) =>
      isDrained === true ? [drainReason] : [],
    );
    const failed = /Z: the prologue of lease-\d+ failed: sh ended with/;
    return (
      reasons.length === 2 &&
      reasons.every((reason) => failed.test(reason)) &&
      reasons.filter((reason) => reason.startsWith("rests until ")).length === 1 &&
      reasons.filter((reason) => reason.startsWith("set aside at ")).length === 1
    );
  });
  await expect.poll(() => cli("explain", "resting")).toContain("waits: WaitingForHosts");
  const { attempts } = JSON.parse(await cli("status", "--json", "resting")) as {
    readonly attempts: readonly unknown[];
  };
  expect(attempts.length).toBeLessThan(4);
  writeFileSync(join(dir, "bad"), "none");
  // The rest ends by itself; what was set aside is an operator's to return.
  await cli("undrain", one, two);
  await expect.poll(() => cli("status", "resting")).toMatch(/^state +completed/m);
});

it("hosts whose check fails are drained, and come back when it passes", async () => {
  rmSync(good);
  const shown = await until((all) => all.every(({ isDrained }) => isDrained === true));
  for (const { drainReason } of shown)
    expect(drainReason).toMatch(/^health check failing since .*Z: test ended with exit code 1$/);
  writeFileSync(good, "");
  await until((all) => all.every(({ isDrained }) => isDrained !== true));
});

it("a host that an operator drained keeps that drain and its reason", async () => {
  await cli("drain", HOST, "--reason", "new fans");
  rmSync(good);
  await until((all) => all.every(({ isDrained }) => isDrained === true));
  writeFileSync(good, "");
  const shown = await until((all) => all.some(({ isDrained }) => isDrained !== true));
  expect(shown.find(({ id }) => id === HOST)).toMatchObject({
    isDrained: true,
    drainReason: "new fans",
  });
});
