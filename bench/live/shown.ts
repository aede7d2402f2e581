/**
 * @file How soon the product's answer about a job is shown: from before the submit call until `status` or `explain` has it, by one clock.
 *
 * Three cases on one simulated fleet of many hosts in racks: a gang that no hosts will ever hold (it is to be named, not to time out), one
 * GPU that its owner wants back from a borrower (the eviction is to be decided; how long a checkpoint takes is the borrower's), and a
 * gang of 512 GPUs (its hosts are to be named). The job's view is asked for again and again, as `status` does; for the reclaim what `explain`
 * asks, because a job that will start gets no reason within its first three seconds. So a time is right to `ASK_EVERY_MS` and a
 * query. A round trip between two bare workflows is measured in turns: what the machine takes for next to nothing.
 * The bars are about the median; the slowest stands beside it. What KAI-Scheduler's repository publishes of such cases stands as the
 * other figure: a whole Kubernetes on a cluster of theirs, so not like with like.
 * Cost: a server, an agent of all hosts, and for each large gang the start and stop of what it runs.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { JobFile, JobHandle } from "../../client/index.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { startFloor } from "../floor/floor.ts";
import { roundTripUpdate } from "../floor/workflows.ts";
import { spreadOf, type Spread } from "../statistics.ts";
import { SCARCE, SHARED, shownFleet } from "./fleet.ts";
import { openQuietFleet, type BenchWorld } from "./world.ts";

interface ShownAnswer {
  readonly bars: readonly Bar[];
  readonly details: Readonly<Record<string, Spread>>;
}

const ASK_EVERY_MS = 20;
const SHOWN_WITHIN_MS = 120_000;
/** After a job has ended its last word is still on its way to the fleet. */
const QUIET_MS = 300;
const LARGE_GPUS = 512;
/** The first of each case pays for caches and compilers. */
const WARM_UP = 1;

interface Case {
  readonly id: string;
  readonly mostMs: number;
  readonly paperMs: number;
  readonly rounds: number;
  readonly job: JobFile;
  readonly isShown: (job: JobHandle) => Promise<boolean>;
  readonly note: string;
}

export async function measureShown(request: BenchRequest): Promise<ShownAnswer> {
  const hosts = request.size("shown-hosts");
  const rounds = request.size("shown-rounds");
  request.say(`shown: starting a server, workers and an agent of ${String(hosts)} hosts`);
  const world = await openQuietFleet({ request }, shownFleet(hosts));
  const borrowers: string[] = [];
  try {
    const floor = await startFloor(world);
    const caller = world.temporal.workflow.getHandle(floor.callerId);
    borrowers.push(...(await fillShared(world)));
    const tripsMs: number[] = [];
    const bars: Bar[] = [];
    const details: Record<string, Spread> = {};
    for (const each of casesOf(rounds)) {
      request.say(`shown: ${each.id}, ${String(each.rounds)} rounds`);
      const timesMs: number[] = [];
      for (let round = -WARM_UP; round < each.rounds; round += 1) {
        world.check();
        await untilAllRun(world, borrowers);
        const beforeMs = performance.now();
        await caller.executeUpdate(roundTripUpdate);
        if (round >= 0) tripsMs.push(performance.now() - beforeMs);
        const tookMs = await oneJob(world, each, round + WARM_UP);
        if (round >= 0) timesMs.push(tookMs);
      }
      const spread = spreadOf(timesMs);
      details[each.id] = spread;
      bars.push(barOfCase(each, spread));
    }
    const trips = spreadOf(tripsMs);
    details["roundTrip"] = trips;
    const note = `an update that has one bare workflow ask another, in turns with the above; the slowest of ${String(trips.count)} took ${trips.max.toFixed(0)} ms`;
    bars.push(barOf({ id: "shown-floor", unit: "ms", target: REPORTED, got: trips.p50, note }));
    return { bars, details };
  } finally {
    // What they run would outlive the server. When the server is gone already, no call is possible.
    await endAll(world, borrowers).catch(() => undefined);
    await world.stop();
  }
}

function casesOf(rounds: number): readonly Case[] {
  const hopeless = 8 * (SCARCE.hosts + 1);
  return [
    {
      id: "shown-hopeless",
      mostMs: 1_000,
      paperMs: 249_500,
      rounds,
      job: jobOf("hopeless", { gang: hopeless, constraints: { gpuTypes: [SCARCE.type] } }),
      isShown: async (job) => (await job.view()).pending?.code === "NoMatchingFlavor",
      note: `a gang of ${String(SCARCE.hosts + 1)} hosts of a type of which there are ${String(SCARCE.hosts)}`,
    },
    {
      id: "shown-reclaim",
      mostMs: 1_000,
      paperMs: 13_900,
      rounds,
      job: jobOf("reclaim", {
        tenant: SHARED.owner,
        gang: 1,
        constraints: { gpuTypes: [SHARED.type] },
      }),
      isShown: async (job) => {
        const { fleet, view } = await job.explain();
        const isWaiting = fleet?.kind === "waiting" && fleet.reason.code === "WaitingForPreempted";
        return isWaiting || view.attempts.length > 0;
      },
      note: "one GPU of the owner's quota, all of which is borrowed; until the eviction is decided",
    },
    {
      id: "shown-large",
      mostMs: 5_000,
      paperMs: 48_700,
      // Each starts the processes of 64 hosts on this machine, and stops them again.
      rounds: Math.max(1, Math.ceil(rounds / 5)),
      job: jobOf("large", { gang: LARGE_GPUS }),
      isShown: isPlaced,
      note: `${String(LARGE_GPUS)} GPUs, until its hosts are named`,
    },
  ];
}

const isPlaced = async (job: JobHandle): Promise<boolean> => (await job.view()).attempts.length > 0;

const isRunning = async (job: JobHandle): Promise<boolean> =>
  (await job.view()).state === "running";

const jobOf = (name: string, more: Pick<JobFile, "gang"> & Partial<JobFile>): JobFile => ({
  name,
  run: { command: ["sleep", "3600"], grace: "1s" },
  ...more,
});

const barOfCase = ({ id, mostMs, paperMs, note }: Case, spread: Spread): Bar =>
  barOf({
    id,
    unit: "ms",
    paper: paperMs,
    target: atMost(mostMs),
    got: spread.p50,
    note: `${note}; median of ${String(spread.count)}, the slowest ${spread.max.toFixed(0)} ms; the other figure is KAI-Scheduler's on a cluster of its own, not like with like`,
  });

/** From before the submit call; the job is gone when this returns. */
async function oneJob(world: BenchWorld, each: Case, round: number): Promise<number> {
  const key = `${world.fleet}-${each.id}-${String(round)}`;
  const submittedMs = performance.now();
  const { jobId } = await world.orbweaver.submit(each.job, {
    ...{ idempotencyKey: key, isQueuedAnyway: true },
  });
  const job = world.orbweaver.job(jobId);
  const shownMs = await untilShown(world, job, each.isShown);
  await job.cancel();
  await job.outcome();
  await sleep(QUIET_MS);
  return shownMs - submittedMs;
}

/** When it was. */
async function untilShown(
  world: BenchWorld,
  job: JobHandle,
  isShown: Case["isShown"],
): Promise<number> {
  const untilMs = performance.now() + SHOWN_WITHIN_MS;
  for (;;) {
    world.check();
    const isThere = await isShown(job);
    const nowMs = performance.now();
    if (isThere) return nowMs;
    if (nowMs > untilMs) {
      const { state, pending } = await job.view();
      throw new Error(
        `${job.jobId} is ${state} (${pending?.code ?? "no reason"}) after ${String(SHOWN_WITHIN_MS / 1_000)} s`,
      );
    }
    await sleep(ASK_EVERY_MS);
  }
}

/** Borrowers on all of the owner's GPUs. */
async function fillShared(world: BenchWorld): Promise<readonly string[]> {
  const file = jobOf("borrower", {
    tenant: SHARED.guest,
    gang: 1,
    constraints: { gpuTypes: [SHARED.type] },
    preemption: { minRuntime: "0s" },
  });
  return Promise.all(
    Array.from({ length: SHARED.gpus }, async (_, at) => {
      const idempotencyKey = `${world.fleet}-borrower-${String(at)}`;
      return (await world.orbweaver.submit(file, { idempotencyKey })).jobId;
    }),
  );
}

async function endAll(world: BenchWorld, jobIds: readonly string[]): Promise<void> {
  const jobs = jobIds.map((jobId) => world.orbweaver.job(jobId));
  await Promise.all(jobs.map((job) => job.cancel()));
  await Promise.all(jobs.map((job) => job.outcome()));
}

/** The evicted job runs again. */
async function untilAllRun(world: BenchWorld, jobIds: readonly string[]): Promise<void> {
  for (const jobId of jobIds) await untilShown(world, world.orbweaver.job(jobId), isRunning);
}
