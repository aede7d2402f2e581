/**
 * @file How soon inference jobs run that come in a burst while most of the fleet is under preemptible training, beside one job on the idle fleet.
 *
 * The fleet has 64 GPUs; training holds 54 of them (85 %). Each burst is `BURST_JOBS` jobs of one GPU, submitted as fast as this client goes: ten
 * find a free GPU, the others one that training gives up, which writes its checkpoint within `GRACE_MS`. Running: from the client's clock
 * before the submit call to the agent's clock when the process ran, on one machine. The idle fleet is measured first, in the same run. Between
 * bursts the stopped training has started again.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { JobFile } from "../../client/index.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { quantile, spreadOf, type Spread } from "../statistics.ts";
import type { BenchWorld } from "./world.ts";

const BURST_JOBS = 30;
const GRACE_MS = 2_000;
const MOST_TIMES_IDLE = 3;
/** 54 of 64 GPUs. */
const TRAINING_GANGS = [8, 8, 8, 8, 8, 8, 2, 2, 2] as const;
const WARM_UP = 3;
const LOOK_EVERY_MS = 500;
const WITHIN_MS = 180_000;
/** Longer than the protected time of training. */
const REST_MS = 3_000;

const SERVE_SECONDS = "1";
const INFERENCE: JobFile = {
  name: "burst",
  class: "inference",
  gang: { gpus: 1 },
  run: { command: ["sleep", SERVE_SECONDS] },
};

/** Writes a checkpoint on USR1 and goes on, and ends on TERM. */
const TRAINER = `save() {
  dir=$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN
  mkdir -p "$dir"
  echo done > "$dir/step.tmp"
  mv "$dir/step.tmp" "$dir/step"
}
trap save USR1
trap 'exit 0' TERM
while :; do sleep 0.1; done`;

const trainingOf = (gpus: number): JobFile => ({
  name: "training",
  class: "training",
  gang: { gpus },
  run: {
    // One process a host is enough to hold the GPUs.
    launch: "per-host",
    command: ["sh", "-c", TRAINER],
    checkpoint: { signal: "USR1", grace: "2s" },
    grace: "1s",
  },
  preemption: { minRuntime: "1s" },
});

interface BurstAnswer {
  readonly bars: readonly Bar[];
  readonly details: Readonly<Record<string, Spread>>;
}

export async function measureBurst(world: BenchWorld, request: BenchRequest): Promise<BurstAnswer> {
  const idleMs: number[] = [];
  for (let round = -WARM_UP; round < request.size("rounds"); round += 1) {
    world.check();
    const ran = await runningMs(world, [
      await submitted(world, INFERENCE, `idle-${String(round)}`),
    ]);
    if (round >= 0) idleMs.push(...ran);
  }
  const training = await Promise.all(
    TRAINING_GANGS.map((gpus, at) => submitted(world, trainingOf(gpus), `training-${String(at)}`)),
  );
  const burstMs: number[] = [];
  const bursts = request.size("bursts");
  for (let burst = 0; burst < bursts; burst += 1) {
    await untilRunning(world, training);
    await sleep(REST_MS);
    const jobs = await Promise.all(
      Array.from({ length: BURST_JOBS }, (_, at) =>
        submitted(world, INFERENCE, `burst-${String(burst)}-${String(at)}`),
      ),
    );
    burstMs.push(...(await runningMs(world, jobs)));
    request.say(`burst: ${String(burst + 1)} of ${String(bursts)}`);
  }
  await Promise.all(training.map(({ jobId }) => world.orbweaver.job(jobId).cancel()));
  const idle = quantile(idleMs, 0.5);
  const p99 = quantile(burstMs, 0.99);
  const most = GRACE_MS + MOST_TIMES_IDLE * idle;
  return {
    bars: [
      barOf({ id: "burst-idle-running-p50", unit: "ms", target: REPORTED, got: idle }),
      barOf({ id: "burst-running-p50", unit: "ms", target: REPORTED, got: quantile(burstMs, 0.5) }),
      barOf({
        id: "burst-running-p99",
        unit: "ms",
        target: atMost(Math.round(most)),
        got: p99,
        note: `${String(burstMs.length)} jobs in bursts of ${String(BURST_JOBS)}; wanted: the grace of ${String(GRACE_MS)} ms and three times one job on the idle fleet`,
      }),
    ],
    details: { idleMs: spreadOf(idleMs), burstMs: spreadOf(burstMs) },
  };
}

interface Submitted {
  readonly jobId: string;
  readonly atMs: number;
}

async function submitted(world: BenchWorld, file: JobFile, key: string): Promise<Submitted> {
  const atMs = Date.now();
  const { jobId } = await world.orbweaver.submit(file, { idempotencyKey: `${world.fleet}-${key}` });
  return { jobId, atMs };
}

/** Waits for the jobs' ends, and says how long each took to run; asks one after the other, because each answer is a replay of the job. */
async function runningMs(
  world: BenchWorld,
  jobs: readonly Submitted[],
): Promise<readonly number[]> {
  await Promise.all(jobs.map(({ jobId }) => world.temporal.workflow.getHandle(jobId).result()));
  const times: number[] = [];
  for (const { jobId, atMs } of jobs) {
    const { attempts } = await world.orbweaver.job(jobId).view();
    const startedAtMs = attempts[0]?.startedAtMs;
    if (startedAtMs === undefined) throw new Error(`job ${jobId} ended without having started`);
    times.push(startedAtMs - atMs);
  }
  return times;
}

async function untilRunning(world: BenchWorld, jobs: readonly Submitted[]): Promise<void> {
  const untilMs = Date.now() + WITHIN_MS;
  for (;;) {
    world.check();
    const states: string[] = [];
    for (const { jobId } of jobs) states.push((await world.orbweaver.job(jobId).view()).state);
    if (states.every((state) => state === "running")) return;
    if (Date.now() > untilMs) throw new Error(`training does not run: ${states.join(", ")}`);
    await sleep(LOOK_EVERY_MS);
  }
}
