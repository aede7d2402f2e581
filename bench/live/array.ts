/** @file Array tasks a second: one job whose tasks are processes of one GPU each, from its submission to its end. */

import { OrbweaverError } from "../../domain/values/failure.ts";
import { atLeast, barOf, unmeasured, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { cpuEach, cpuNow } from "./cpu.ts";
import type { BenchWorld } from "./world.ts";

/** Slurm 22.05 with an array of 1,000 tasks on a machine of two cores. */
const SLURM_TASKS_PER_SECOND = 64;
const FIGURE = {
  id: "array-tasks",
  unit: "1/s",
  target: atLeast(400),
  paper: SLURM_TASKS_PER_SECOND,
} as const;

export interface ArrayMeasured {
  readonly bars: readonly Bar[];
  /** Milliseconds of processor time a task, by process. */
  readonly details?: { readonly cpuMs: Readonly<Record<string, number>> };
}

export async function measureArray(
  world: BenchWorld,
  request: BenchRequest,
): Promise<ArrayMeasured> {
  const count = request.size("tasks");
  const file = {
    name: "array",
    gang: { gpus: 1 },
    run: { command: ["true"] },
    array: { count },
  };
  request.say(`array: ${String(count)} tasks`);
  const before = cpuNow(world);
  const startedAtMs = Date.now();
  try {
    const { jobId } = await world.orbweaver.submit(file, {
      idempotencyKey: `${world.fleet}-array`,
    });
    const handle = world.temporal.workflow.getHandle(jobId);
    await handle.result();
    const { closeTime, historyLength } = await handle.describe();
    const tookMs = (closeTime?.getTime() ?? NaN) - startedAtMs;
    return {
      bars: [
        barOf({
          ...FIGURE,
          got: (1_000 * count) / tookMs,
          note: `${String(count)} tasks, ${(historyLength / count).toFixed(2)} history events a task; Slurm 22.05 on two cores for comparison`,
        }),
      ],
      details: { cpuMs: cpuEach(before, cpuNow(world), count) },
    };
  } catch (error) {
    // A release without arrays refuses the file; every other failure is one.
    if (!(error instanceof OrbweaverError) || error.code !== "BAD_INPUT") throw error;
    return { bars: [unmeasured(FIGURE, error.message)] };
  }
}
