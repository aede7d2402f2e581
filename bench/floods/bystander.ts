/**
 * @file Another tenant, who submits a job of one GPU every second, flood or not: how long each takes from the submit call to its end.
 *
 * A job is submitted at its time even when the one before has not ended, so a standstill shows in all of them.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { FloodTarget } from "./flood.ts";

/** The tenant whose jobs are timed. */
export const BYSTANDER = "bystander";
/** A job that takes longer counts as never ended, unless a caller has more patience. */
const NEVER_MS = 120_000;
const EVERY_MS = 1_000;

export interface Patience {
  /** A job that takes longer counts as never ended. */
  readonly neverMs?: number | undefined;
}

export interface Bystander {
  /** Resolves with the times of all jobs submitted until then, once they have ended. */
  readonly stop: () => Promise<readonly number[]>;
}

/** Submits until `stop`; `Infinity` is a job that failed or never ended. */
export function openBystander(
  target: FloodTarget,
  { label, neverMs }: Patience & { readonly label: string },
): Bystander {
  let isOver = false;
  const jobs: Promise<number>[] = [];
  const submitting = (async () => {
    while (!isOver) {
      jobs.push(timedJob(target, { key: `${label}-${String(jobs.length)}`, neverMs }));
      await sleep(EVERY_MS);
    }
  })();
  return {
    async stop() {
      isOver = true;
      await submitting;
      return Promise.all(jobs);
    },
  };
}

/** One after the other: the times of so many jobs. */
export async function timedJobs(
  target: FloodTarget,
  { count, label, neverMs }: Patience & { readonly count: number; readonly label: string },
): Promise<readonly number[]> {
  const times: number[] = [];
  while (times.length < count) {
    times.push(await timedJob(target, { key: `${label}-${String(times.length)}`, neverMs }));
    await sleep(PAUSE_MS);
  }
  return times;
}
/** A job's last word is still on its way to the fleet when it has ended. */
const PAUSE_MS = 200;

async function timedJob(
  { temporal, orbweaver }: FloodTarget,
  { key, neverMs = NEVER_MS }: Patience & { readonly key: string },
): Promise<number> {
  const startedAtMs = performance.now();
  const over = new AbortController();
  const late = sleep(neverMs, Infinity, { signal: over.signal }).catch(() => Infinity);
  // A call that nobody waits for any more would be repeated for ever, also when its server is gone.
  const ended = temporal
    .withAbortSignal(over.signal, async () => {
      const { jobId } = await orbweaver.submit(
        { name: BYSTANDER, tenant: BYSTANDER, gang: { gpus: 1 }, run: { command: ["true"] } },
        { idempotencyKey: key },
      );
      await temporal.workflow.getHandle(jobId).result();
      return performance.now() - startedAtMs;
    })
    .catch((error: unknown) => {
      if (!over.signal.aborted) process.stderr.write(`${key} failed: ${String(error)}\n`);
      return Infinity;
    });
  try {
    return await Promise.race([ended, late]);
  } finally {
    over.abort();
  }
}
