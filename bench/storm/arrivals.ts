/**
 * @file The jobs that arrive during a storm: a number of them is kept open, and those on hold are released after a while.
 *
 * While the server is down no job arrives and none is looked at.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Draw } from "../statistics.ts";
import { insist } from "./insistence.ts";
import type { Site } from "./site.ts";
import { drawKind, stormJob, type JobKind, type StormJob } from "./workload.ts";

const LOOK_MS = 400;
const HOLD_MS = 3_000;
const MOST_AT_ONCE = 4;

export interface Arrivals {
  readonly jobs: readonly StormJob[];
  readonly submit: (kind: JobKind) => Promise<StormJob>;
  /** The jobs that the storm may still terminate, cancel or reset. */
  readonly meddlable: () => readonly StormJob[];
  /** No calls to the server until `resume`. */
  readonly pause: () => void;
  readonly resume: () => void;
  /** Resolves after `stop`. */
  readonly run: () => Promise<void>;
  readonly stop: () => void;
}

export interface ArrivalsOptions {
  /** Jobs that wait or run at a time. */
  readonly openJobs: number;
  /** Draws the jobs. */
  readonly draw: Draw;
}

export function openArrivals(site: Site, { openJobs, draw }: ArrivalsOptions): Arrivals {
  const jobs: StormJob[] = [];
  const heldSince = new Map<string, number>();
  let isOver = false;
  let isPaused = false;

  async function submit(kind: JobKind): Promise<StormJob> {
    const job = stormJob(site, { kind, number: jobs.length, draw });
    jobs.push(job);
    await insist(site.client, () => site.orbweaver.submit(job.file, { idempotencyKey: job.id }));
    return job;
  }

  async function fill(): Promise<void> {
    const missing = openJobs - jobs.filter(({ isClosed }) => !isClosed).length;
    const count = Math.max(0, Math.min(missing, MOST_AT_ONCE));
    await Promise.all(Array.from({ length: count }, () => submit(drawKind(draw))));
  }

  function releaseHeld(): void {
    for (const job of jobs.filter(({ isHeld, isClosed }) => isHeld && !isClosed)) {
      const sinceMs = heldSince.get(job.id) ?? Date.now();
      heldSince.set(job.id, sinceMs);
      if (Date.now() - sinceMs > HOLD_MS) void release(site, job);
    }
  }

  return {
    jobs,
    submit,
    meddlable: () =>
      jobs.filter(
        ({ isClosed, meddling, kind }) =>
          !isClosed && meddling === undefined && kind !== "probe" && kind !== "ambushed",
      ),
    pause() {
      isPaused = true;
    },
    resume() {
      isPaused = false;
    },
    stop() {
      isOver = true;
    },
    async run() {
      while (!isOver) {
        await sleep(LOOK_MS);
        if (isPaused) continue;
        const open = jobs.filter(({ isClosed }) => !isClosed);
        await Promise.all(open.map((job) => look(site, job)));
        await fill();
        releaseHeld();
      }
    },
  };
}

async function look({ client }: Site, job: StormJob): Promise<void> {
  const described = await client
    .withDeadline(Date.now() + 2_000, () => client.workflow.getHandle(job.id).describe())
    .catch(() => undefined);
  if (described !== undefined) job.isClosed = described.status.name !== "RUNNING";
}

/** Releases a job from its hold. */
export async function release(site: Site, job: StormJob): Promise<void> {
  const released = await insist(site.client, () => site.orbweaver.job(job.id).release()).catch(
    () => undefined,
  );
  if (released !== undefined) job.isHeld = false;
}
