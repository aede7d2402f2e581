/** @file Array tasks a second: one job whose tasks are processes of one GPU each, from its submission to its end. */

import { OrbweaverError } from "../../domain/values/failure.ts";
import { atLeast, barOf, unmeasured, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import type { BenchWorld } from "./world.ts";

/** Slurm 22.05 with an array of 1,000 tasks on a machine of two cores. */
const SLURM_TASKS_PER_SECOND = 64;
const FIGURE = {
  id: "array-tasks",
  unit: "1/s",
  target: atLeast(64),
  paper: SLURM_TASKS_PER_SECOND,
} as const;

export async function measureArray(
  world: BenchWorld,
  request: BenchRequest,
): Promise<readonly Bar[]> {
  const count = request.size("tasks");
  const file = {
    name: "array",
    gang: { gpus: 1 },
    run: { command: ["true"] },
    array: { count },
  };
  request.say(`array: ${String(count)} tasks`);
  const startedAtMs = Date.now();
  try {
    const { jobId } = await world.orbweaver.submit(file, {
      idempotencyKey: `${world.fleet}-array`,
    });
    const handle = world.temporal.workflow.getHandle(jobId);
    await handle.result();
    const { closeTime, historyLength } = await handle.describe();
    const tookMs = (closeTime?.getTime() ?? NaN) - startedAtMs;
    return [
      barOf({
        ...FIGURE,
        got: (1_000 * count) / tookMs,
        note: `${String(count)} tasks, ${(historyLength / count).toFixed(2)} history events a task; Slurm 22.05 on two cores for comparison`,
      }),
    ];
  } catch (error) {
    // A release without arrays refuses the file; every other failure is one.
    if (!(error instanceof OrbweaverError) || error.code !== "BAD_INPUT") throw error;
    return [unmeasured(FIGURE, error.message)];
  }
}
