/**
 * @file Simulates a workload on a fleet under given policies: options in, one plain document out.
 *
 * No clock and no randomness but the seed's: the same options give the same bytes. `simulate` is a generator, so that its
 * caller can show progress, stop it, or do other work in between; `runSimulation` runs it to the end.
 */

import { byCodeUnit } from "../domain/values/ids.ts";
import { JOB_CLASSES } from "../domain/job/job.ts";
import { gpuCountOf } from "../domain/lease/lease.ts";
import { randomFrom } from "../lib/random.ts";
import { openSpread, PAPER, throughputOf } from "../scheduling/placement/spread.ts";
import { readyLedger } from "./scheduler.ts";
import { openEngine } from "./engine.ts";
import { CLASS_GROUPS, openMetrics } from "./metrics.ts";
import {
  DEFAULT_COSTS,
  DEFAULT_SAMPLES,
  DEFAULT_WINDOW,
  NO_FAILURES,
  type RateOf,
  type SimulationOptions,
  type SimulationProgress,
} from "./options.ts";
import type { SimulationResult } from "./result.ts";
import { summarise } from "./summary.ts";

/** Steps between two words of progress. */
const STEPS_A_WORD = 2_048;

export function* simulate(
  options: SimulationOptions,
): Generator<SimulationProgress, SimulationResult> {
  const { fleet, workload, openScheduler, seed, drainMs = Infinity } = options;
  const costs = { ...DEFAULT_COSTS, ...options.costs };
  const failures = { ...NO_FAILURES, ...options.failures };
  const { fromShare, toShare } = { ...DEFAULT_WINDOW, ...options.window };
  const { jobs } = workload;
  const firstMs = jobs[0]?.submittedAtMs ?? 0;
  const lastMs = jobs.at(-1)?.submittedAtMs ?? 0;
  const window = {
    fromMs: firstMs + fromShare * (lastMs - firstMs),
    toMs: firstMs + toShare * (lastMs - firstMs),
  };
  const tenants = [...new Set(jobs.map(({ tenant }) => tenant))].sort(byCodeUnit);
  const tenantAt = new Map(tenants.map((tenant, at) => [tenant, at]));
  const hosts = fleet.clusters.flatMap((cluster) => cluster.hosts);
  const gpus = hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const metrics = openMetrics({ shape: fleet, tenants, gpus });
  const spread = openSpread(fleet);
  // A workload's durations are those at the best spread, which has the paper's 0.94 of peak.
  const bySpread: RateOf = (_, { gpus: parts }) =>
    gpuCountOf(parts) * Math.min(1, throughputOf(parts, spread) / PAPER.oneDomain);
  const random = randomFrom(seed, "simulator");
  const engine = openEngine({
    costs,
    failures,
    scheduler: openScheduler(readyLedger(fleet)),
    metrics,
    arrivals: jobs,
    rateOf: options.rateOf ?? bySpread,
    hosts,
    random: { hosts: random.stream("hosts"), jobs: random.stream("jobs") },
    sampleEveryMs: Math.max(1, (lastMs - firstMs) / (options.samples ?? DEFAULT_SAMPLES)),
    stopAtMs: lastMs + drainMs,
    window,
    placeOf: (job) => ({
      classGroup: JOB_CLASSES.indexOf(job.class),
      tenantGroup: CLASS_GROUPS + (tenantAt.get(job.tenant) ?? 0),
      isInWindow: job.submittedAtMs >= window.fromMs && job.submittedAtMs <= window.toMs,
    }),
  });
  for (let steps = 1; engine.step(); steps += 1) {
    if (steps % STEPS_A_WORD !== 0) continue;
    const { arrived, ended, running } = engine.counts;
    const waiting = arrived - ended - running;
    yield { nowMs: engine.nowMs(), arrived, ended, jobs: jobs.length, waiting };
  }
  return summarise({ options, costs, failures, window, tenants, gpus, engine, metrics });
}

export function runSimulation(options: SimulationOptions): SimulationResult {
  const run = simulate(options);
  for (;;) {
    const next = run.next();
    if (next.done === true) return next.value;
  }
}
