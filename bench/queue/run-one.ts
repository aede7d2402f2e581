/** @file Runs one simulation of the bench to its end, with progress for people and an ear for Ctrl-C. */

import type { SimulationOptions } from "../../simulator/options.ts";
import type { SimulationResult } from "../../simulator/result.ts";
import { simulate } from "../../simulator/simulate.ts";
import type { BenchRequest } from "../bench.ts";

/** Words of progress, in milliseconds. */
const WORD_MS = 10_000;

export async function runOne(
  options: SimulationOptions,
  { say, interrupted }: Pick<BenchRequest, "say" | "interrupted">,
): Promise<SimulationResult> {
  const run = simulate(options);
  let saidMs = performance.now();
  for (;;) {
    const next = run.next();
    if (next.done === true) return next.value;
    interrupted.throwIfAborted();
    const { ended, jobs, waiting } = next.value;
    if (performance.now() - saidMs > WORD_MS) {
      saidMs = performance.now();
      say(
        `${options.policy}: ${String(ended)} of ${String(jobs)} jobs have ended, ${String(waiting)} wait`,
      );
    }
    // A simulation never waits, so without this it could not be interrupted.
    await new Promise(setImmediate);
  }
}
