/**
 * @file Workers on demand on a real server: from no process to a completed job, idle end, wake again; from always-on workers to
 * on-demand ones and back with a job open; nothing starts after `down`.
 *
 * A server of its own, because which build is current holds for the whole namespace.
 */

import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { livingOnDemand } from "../../workers/on-demand/role-lock.ts";
import { cliOf } from "../support/own-cli.ts";
import { removeFolder } from "../support/remove-folder.ts";

const FLEET = "demand";
let dir = "";
let up = "";
const stateDir = (): string => join(dir, FLEET);

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "orbweaver-demand-"));
  up = await cli("up", "--idle", "2", "--json");
});
afterAll(async () => {
  await cli("down", "--stop-jobs").catch(() => undefined);
  removeFolder(dir);
});

const cli = cliOf(FLEET, () => dir);

async function untilAsleep(): Promise<void> {
  await expect.poll(() => livingOnDemand(stateDir()), { interval: 100 }).toEqual([]);
}

async function startsOf(role: string): Promise<number> {
  const log = await readFile(join(stateDir(), "logs", `${role}.log`), "utf8");
  return log.split('"sinceStartMs"').length - 1;
}

it("a job wakes both workers, which end again; a query wakes them too", async () => {
  expect(JSON.parse(up)).toMatchObject({ control: { mode: "controller", idleMs: 2_000 } });
  await untilAsleep();
  const [fleet, jobs] = [await startsOf("fleet"), await startsOf("jobs")];
  await cli("submit", "--gpus", "1", "--wait", "--", "true");
  // More than once where the start of one takes longer than the other one idles.
  expect(await startsOf("fleet")).toBeGreaterThan(fleet);
  expect(await startsOf("jobs")).toBeGreaterThan(jobs);
  await untilAsleep();
  const before = await startsOf("fleet");
  expect(JSON.parse(await cli("fleet", "show", "--json"))).toMatchObject({});
  expect(await startsOf("fleet")).toBeGreaterThan(before);
  await untilAsleep();
});

it("workers that are always on and workers on demand take over from each other with a job open", async () => {
  const jobId =
    (await cli("submit", "--gpus", "1", "--", "sleep", "3600")).trim().split("\n")[0] ?? "";
  const stateOf = async (): Promise<unknown> =>
    JSON.parse(await cli("status", jobId, "--json")).state;
  await expect.poll(stateOf, { interval: 500 }).toBe("running");
  await cli("up", "--always-on");
  expect(livingOnDemand(stateDir())).toEqual([]);
  await cli("submit", "--gpus", "1", "--wait", "--", "true");
  expect(await stateOf()).toBe("running");
  await cli("up", "--on-demand", "--idle", "2");
  expect(await stateOf()).toBe("running");
  await untilAsleep();
  await cli("cancel", jobId);
  await expect.poll(stateOf, { interval: 500 }).toBe("cancelled");
});

it("nothing starts after down, although a task waits", async () => {
  await cli("submit", "--gpus", "1", "--", "true");
  await cli("down");
  expect(livingOnDemand(stateDir())).toEqual([]);
  await sleep(1_500);
  expect(livingOnDemand(stateDir())).toEqual([]);
});
