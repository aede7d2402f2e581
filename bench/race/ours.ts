/** @file The races as the product runs them: a fleet of the same shape, its jobs submitted by the library, in one race by the command line. */

import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import type { JobFile } from "../../client/index.ts";
import { commandLine } from "../../workers/server/package-root.ts";
import { GPUS_PER_HOST, simulatedFleet } from "../live/fleet.ts";
import type { BenchWorld } from "../live/world.ts";
import type { Contestant } from "./races.ts";
import { HOSTS } from "./slurm.ts";

const run = promisify(execFile);
const MAIN = commandLine();
const GPUS = HOSTS * GPUS_PER_HOST;
const LANES = 32;
const LOOK_EVERY_MS = 100;
const WITHIN_MS = 600_000;
/** After a job has ended its last word is still on its way to the fleet. */
const QUIET_MS = 500;
/** As long as Slurm's victim runs. */
const VICTIM_MS = 2_000;
const MOST_OUTPUT_BYTES = 2 ** 28;

export const RACE_FLEET = simulatedFleet("race", HOSTS);

const TASK: JobFile = { name: "task", gang: { gpus: 1 }, run: { command: ["true"] } };
const wholeFleet = (name: string, command: readonly string[]): JobFile => ({
  name,
  gang: { gpus: GPUS },
  run: { launch: "per-host", command: [...command], grace: "0s" },
});

export function ourContestant(world: BenchWorld): Contestant {
  const place = ["--isolated", "--address", world.address, "--fleet", world.fleet];
  const orbweaver = async (words: readonly string[]): Promise<string> =>
    (await run(process.execPath, [MAIN, ...place, ...words], { maxBuffer: MOST_OUTPUT_BYTES }))
      .stdout;
  let submitted = 0;
  const submit = async (file: JobFile): Promise<string> => {
    world.check();
    submitted += 1;
    const idempotencyKey = `${world.fleet}-race-${String(submitted)}`;
    return (await world.orbweaver.submit(file, { idempotencyKey })).jobId;
  };
  const array = async (file: JobFile, count: number): Promise<number> => {
    await sleep(QUIET_MS);
    const beganAtMs = Date.now();
    return (await endedAt(world, await submit({ ...file, array: { count } }))) - beganAtMs;
  };
  return {
    name: "Orbweaver",
    array: (tasks) => array(TASK, tasks),
    gangs: (count) => array(wholeFleet("gangs", ["true"]), count),
    jobs: async (count) => {
      await sleep(QUIET_MS);
      const beganAtMs = Date.now();
      const ids = await inLanes(count, () => submit(TASK));
      const ends = await Promise.all(ids.map((id) => endedAt(world, id)));
      return Math.max(...ends) - beganAtMs;
    },
    start: async () => {
      await sleep(QUIET_MS);
      const beganAtMs = Date.now();
      const said = await orbweaver(["submit", "--json", "--gpus", "1", "--", "true"]);
      const { jobId } = JSON.parse(said) as { readonly jobId: string }; // of our own verb
      await endedAt(world, jobId);
      return (await ranAt(world, jobId)) - beganAtMs;
    },
    preempt: async () => {
      const victim = await submit({
        ...wholeFleet("victim", ["sleep", "600"]),
        class: "training",
        preemption: { minRuntime: "0s" },
      });
      await untilRuns(world, victim);
      await sleep(VICTIM_MS);
      const beganAtMs = Date.now();
      const job = await submit({ ...wholeFleet("beneficiary", ["true"]), class: "inference" });
      await endedAt(world, job);
      const tookMs = (await ranAt(world, job)) - beganAtMs;
      await world.orbweaver.job(victim).cancel();
      await world.temporal.workflow
        .getHandle(victim)
        .result()
        .catch(() => undefined); // a cancelled job fails
      return tookMs;
    },
    queue: async (jobs, lists) => {
      await untilRuns(world, await submit(wholeFleet("blocker", ["sleep", "86400"])));
      const beganAtMs = Date.now();
      await inLanes(jobs, () => submit({ ...TASK, name: "queued" }));
      const fillMs = Date.now() - beganAtMs;
      const list = ["list", "--limit", String(jobs + 1), "-o", "wide"];
      await untilListed(() => orbweaver(list), jobs + 2);
      const listBeganMs = performance.now();
      for (let at = 0; at < lists; at += 1) await orbweaver(list);
      return { fillMs, listMs: performance.now() - listBeganMs };
    },
  };
}

/** When it completed, by Temporal's clock, which is this machine's; fails unless it did. */
async function endedAt(world: BenchWorld, jobId: string): Promise<number> {
  const handle = world.temporal.workflow.getHandle(jobId);
  await handle.result();
  return (await handle.describe()).closeTime?.getTime() ?? NaN;
}

/** When the processes of a job that has ended ran, by the clock of its host. */
async function ranAt(world: BenchWorld, jobId: string): Promise<number> {
  const { attempts } = await world.orbweaver.job(jobId).view();
  const startedAtMs = attempts.at(-1)?.startedAtMs;
  if (startedAtMs === undefined) throw new Error(`job ${jobId} ended without having started`);
  return startedAtMs;
}

async function untilRuns(world: BenchWorld, jobId: string): Promise<void> {
  const untilMs = Date.now() + WITHIN_MS;
  for (;;) {
    world.check();
    const { state } = await world.orbweaver.job(jobId).view();
    if (state === "running") return;
    if (Date.now() > untilMs) throw new Error(`job ${jobId} is ${state} and does not run`);
    await sleep(LOOK_EVERY_MS);
  }
}

async function inLanes<T>(count: number, each: () => Promise<T>): Promise<readonly T[]> {
  const got: T[] = [];
  let left = count;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      got.push(await each());
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return got;
}

/** The search index follows a little later. */
async function untilListed(list: () => Promise<string>, lines: number): Promise<void> {
  const untilMs = Date.now() + WITHIN_MS;
  for (;;) {
    const got = (await list()).trimEnd().split("\n").length;
    if (got === lines) return;
    if (Date.now() > untilMs)
      throw new Error(`${String(got)} of ${String(lines)} lines are listed`);
    await sleep(LOOK_EVERY_MS);
  }
}
