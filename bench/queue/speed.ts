/** @file How fast the simulator is: jobs a minute with TAWFQ on 6,000 GPUs, arrivals and all, by the wall clock. */

import { brainWith } from "../../simulator/brain.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { drawPaperMix } from "../../simulator/paper-mix.ts";
import { atLeast, barOf, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { figureText } from "../report.ts";
import { ENTRANTS } from "./entrants.ts";
import { CYCLE_INTERVAL_MS } from "./compare.ts";
import { FROZEN_MIX } from "./mix.ts";
import { runOne } from "./run-one.ts";

const SITES = [2_000, 2_000, 2_000];
const JOBS_A_MINUTE = 100_000;

export async function measureSpeed(request: BenchRequest, jobs: number): Promise<Bar> {
  const gpus = SITES.reduce((sum, count) => sum + count, 0);
  request.say(`speed: ${String(jobs)} jobs on ${String(gpus)} GPUs`);
  const workload = drawPaperMix({ ...FROZEN_MIX, gpus, jobs }, request.seed);
  const startMs = performance.now();
  const result = await runOne(
    {
      fleet: fleetOf(SITES, { tenants: workload.tenants }),
      workload,
      policy: "tawfq",
      openBrain: brainWith(ENTRANTS.tawfq.policies),
      seed: request.seed,
      costs: { cycleIntervalMs: CYCLE_INTERVAL_MS },
    },
    request,
  );
  const tookMs = performance.now() - startMs;
  const hours = result.endedAtMs / 3_600_000;
  return barOf({
    id: "simulated-jobs",
    unit: "jobs/min",
    wish: atLeast(JOBS_A_MINUTE),
    got: (result.jobs.ended / tookMs) * 60_000,
    note: `${figureText(result.jobs.ended)} jobs, ${figureText(hours)} hours of 6,000 GPUs at load ${result.workload.offeredLoad.toFixed(2)}, in ${figureText(tookMs / 1_000)} s`,
  });
}
