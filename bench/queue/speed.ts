/**
 * @file How fast the simulator is: jobs a minute with TAWFQ on 6,000 GPUs, on three workloads that ask very different things of it.
 *
 * Philly at its own times of arrival: nearly every job starts at once. Philly at load 0.9, by far more than a queue forgives: hundreds wait
 * all the time. The frozen mix, overloaded as well, most of it gangs of hundreds of GPUs for seconds: each cycle sets whole sites
 * apart anew. Counted is all from the first arrival to the last end, arrivals, ledger, decisions and account.
 */

import { schedulerWith } from "../../simulator/scheduler.ts";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { drawPaperMix } from "../../simulator/paper-mix.ts";
import { traceWorkload } from "../../simulator/readers/trace-workload.ts";
import type { Workload } from "../../simulator/workload.ts";
import { atLeast, barOf, unmeasured, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { figureText } from "../report.ts";
import { ENTRANTS } from "../../simulator/entrants/entrants.ts";
import { CYCLE_INTERVAL_MS } from "./compare.ts";
import { FROZEN_MIX } from "../../simulator/entrants/frozen-mix.ts";
import { phillyTrace } from "./philly.ts";
import { runOne } from "./run-one.ts";

const SITES = [2_000, 2_000, 2_000];
const GPUS = SITES.reduce((sum, count) => sum + count, 0);
const JOBS_A_MINUTE = 100_000;
const LOAD = 0.9;
/** Of the jobs, so many are drawn: one of them costs as much as twenty of Philly's, however many there are. */
const DRAWN_SHARE = 0.2;

const IDS = ["simulated-jobs-philly", "simulated-jobs-philly-load", "simulated-jobs"] as const;

export async function measureSpeed(request: BenchRequest, jobs: number): Promise<readonly Bar[]> {
  const { trace } = await phillyTrace();
  const drawn = Math.ceil(jobs * DRAWN_SHARE);
  const about = { name: "philly", fleet: fleetOf(SITES), jobs };
  const workloads: Readonly<Record<(typeof IDS)[number], Workload | undefined>> = {
    "simulated-jobs-philly": trace && traceWorkload(trace, about),
    "simulated-jobs-philly-load": trace && traceWorkload(trace, { ...about, load: LOAD }),
    "simulated-jobs": drawPaperMix({ ...FROZEN_MIX, gpus: GPUS, jobs: drawn }, request.seed),
  };
  const bars: Bar[] = [];
  for (const id of IDS) bars.push(await measureOne(request, id, workloads[id]));
  return bars;
}

async function measureOne(
  request: BenchRequest,
  id: (typeof IDS)[number],
  workload: Workload | undefined,
): Promise<Bar> {
  const bar = { id, unit: "jobs/min", target: atLeast(JOBS_A_MINUTE) };
  if (workload === undefined) return unmeasured(bar, "the trace is not here or cannot be read");
  request.say(`speed: ${String(workload.jobs.length)} jobs of ${id} on ${String(GPUS)} GPUs`);
  const before = process.cpuUsage();
  const startMs = performance.now();
  const result = await runOne(
    {
      fleet: fleetOf(SITES, { tenants: workload.tenants }),
      workload,
      policy: "tawfq",
      openScheduler: schedulerWith(ENTRANTS.tawfq.policies),
      seed: request.seed,
      costs: { cycleIntervalMs: CYCLE_INTERVAL_MS },
    },
    request,
  );
  const tookMs = performance.now() - startMs;
  const { user, system } = process.cpuUsage(before);
  const cpuMs = (user + system) / 1_000;
  const { ended } = result.jobs;
  const hours = result.endedAtMs / 3_600_000;
  return barOf({
    ...bar,
    got: (ended / tookMs) * 60_000,
    note: `${figureText(ended)} jobs, ${figureText(hours)} hours of 6,000 GPUs, ${(100 * result.utilisation).toFixed(0)} % used, in ${figureText(tookMs / 1_000)} s; by processor time ${figureText((ended / cpuMs) * 60_000)} a minute`,
  });
}
