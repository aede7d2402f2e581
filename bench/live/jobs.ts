/**
 * @file Jobs a second through their whole life, beside the bare floor: both submitted by this client as fast as it goes, in turns.
 *
 * The rate is the count over the time from the first submission to the last end as Temporal noted it. Every one must have completed,
 * or nothing counts.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Floor } from "../floor/floor.ts";
import type { FloorWay } from "../floor/workflows.ts";
import { atLeast, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { cpuEach, cpuNow } from "./cpu.ts";
import type { BenchWorld } from "./world.ts";

const LEAST_RATIO = 0.85;
const LEAST_CPU_RATIO = 0.8;
/** Submissions on their way at once. */
const LANES = 32;
const LOOK_EVERY_MS = 200;
const END_WITHIN_MS = 300_000;
const WARM_UP_JOBS = 16;
const TRIAL_JOBS = 48;

interface JobsAnswer {
  readonly bars: readonly Bar[];
  readonly details: Readonly<Record<string, unknown>>;
}

interface Block {
  readonly count: number;
  readonly tookMs: number;
  readonly cpuMsEach: Readonly<Record<string, number>>;
}

/** What is started, and under which ids. */
type Side = (workflowId: string) => Promise<unknown>;

export async function measureJobs(
  world: BenchWorld,
  floor: Floor,
  request: BenchRequest,
): Promise<JobsAnswer> {
  const blocks = request.size("blocks");
  const count = Math.ceil(request.size("jobs") / blocks);
  const file = { name: "jobs", gang: { gpus: 1 }, run: { command: ["true"] } };
  const ours: Side = (workflowId) => world.orbweaver.submit(file, { idempotencyKey: workflowId });
  const bareBy =
    (way: FloorWay): Side =>
    (workflowId) =>
      world.temporal.workflow.start("floorJob", {
        workflowId,
        taskQueue: floor.jobsQueue,
        args: [floor.entityIds[way], floor.hostQueue, way],
      });
  const run = (side: Side, name: string, size: number): Promise<Block> =>
    oneBlock(world, side, { name: `${world.fleet}-${name}`, count: size });

  const warmUp = Math.min(WARM_UP_JOBS, count);
  const trial = Math.min(TRIAL_JOBS, count);
  await run(ours, "warm-ours", warmUp);
  // The floor gets its best reading: the faster of its two ways in a trial of its own.
  const trials: { readonly way: FloorWay; readonly rate: number }[] = [];
  for (const way of ["by server", "by client"] as const) {
    await run(bareBy(way), `warm-${way.slice(3)}`, warmUp);
    trials.push({
      way,
      rate: rateOf([await run(bareBy(way), `trial-${way.slice(3)}`, trial)]),
    });
  }
  const best = trials.reduce((a, b) => (b.rate > a.rate ? b : a));
  const bare = bareBy(best.way);
  const bareBlocks: Block[] = [];
  const ourBlocks: Block[] = [];
  for (let block = 0; block < blocks; block += 1) {
    bareBlocks.push(await run(bare, `bare-${String(block)}`, count));
    ourBlocks.push(await run(ours, `jobs-${String(block)}`, count));
    request.say(
      `jobs: turn ${String(block + 1)} of ${String(blocks)}: ${rateOf(ourBlocks).toFixed(1)}/s, floor ${rateOf(bareBlocks).toFixed(1)}/s`,
    );
  }
  const ourRate = rateOf(ourBlocks);
  const bareRate = rateOf(bareBlocks);
  return {
    bars: [
      barOf({ id: "floor-jobs", unit: "1/s", target: REPORTED, got: bareRate }),
      barOf({ id: "jobs", unit: "1/s", target: REPORTED, got: ourRate }),
      barOf({
        id: "jobs-ratio",
        unit: "×",
        target: atLeast(LEAST_RATIO),
        got: ourRate / bareRate,
        note: `${String(blocks * count)} jobs of one process and as many of the floor (signals ${best.way}), in ${String(blocks)} turns`,
      }),
      barOf({
        id: "jobs-cpu-ratio",
        unit: "×",
        target: atLeast(LEAST_CPU_RATIO),
        got: cpuOf(bareBlocks) / cpuOf(ourBlocks),
        note: "processor time of all processes, the server's too: the floor's over ours, little disturbed by a busy machine",
      }),
    ],
    details: { jobs: ourBlocks, floorJobs: bareBlocks, floorTrials: trials },
  };
}

const rateOf = (blocks: readonly Block[]): number => {
  const jobs = blocks.reduce((sum, { count }) => sum + count, 0);
  const tookMs = blocks.reduce((sum, block) => sum + block.tookMs, 0);
  return (1_000 * jobs) / tookMs;
};

const cpuOf = (blocks: readonly Block[]): number =>
  blocks
    .flatMap(({ cpuMsEach }) => Object.values(cpuMsEach))
    .reduce((sum, cpuMs) => sum + cpuMs, 0);

async function oneBlock(
  world: BenchWorld,
  side: Side,
  { name, count }: { readonly name: string; readonly count: number },
): Promise<Block> {
  const ids = Array.from({ length: count }, (_, at) => `${name}-${String(at)}`);
  const cpuBefore = cpuNow(world);
  const startedAtMs = Date.now();
  const left = [...ids];
  const lane = async (): Promise<void> => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) await side(id);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  const endedAtMs = await lastEnd(world, name, count);
  const cpuMsEach = cpuEach(cpuBefore, cpuNow(world), count);
  return { count, tookMs: endedAtMs - startedAtMs, cpuMsEach };
}

/** When the last of the block had ended, by Temporal's clock; fails unless all completed. */
async function lastEnd(world: BenchWorld, name: string, count: number): Promise<number> {
  const { workflow } = world.temporal;
  const all = `WorkflowId STARTS_WITH "${name}-"`;
  const untilMs = Date.now() + END_WITHIN_MS;
  for (;;) {
    world.check();
    const running = await workflow.count(`${all} AND ExecutionStatus != "Running"`);
    if (running.count >= count) break;
    if (Date.now() > untilMs) {
      throw new Error(`only ${String(running.count)} of ${String(count)} ${name} ended in time`);
    }
    await sleep(LOOK_EVERY_MS);
  }
  let lastMs = 0;
  let completed = 0;
  for await (const { closeTime } of workflow.list({
    query: `${all} AND ExecutionStatus = "Completed"`,
  })) {
    completed += 1;
    lastMs = Math.max(lastMs, closeTime?.getTime() ?? 0);
  }
  if (completed !== count) {
    throw new Error(`${String(count - completed)} of ${String(count)} ${name} did not complete`);
  }
  return lastMs;
}
