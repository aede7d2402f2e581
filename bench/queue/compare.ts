/**
 * @file All policies on the same arrivals: the fleet of the paper, the frozen mix, every seed.
 *
 * The decision's cost is measured first, on this machine, and then charged to every policy: p99 of one decision of TAWFQ with the folding
 * of its plan, in a run of its own. The charge is a whole number of milliseconds, so that one machine
 * gives the same figures again.
 */

import { schedulerWith } from "../../simulator/scheduler.ts";
import type { SimulationCosts, SimulationOptions } from "../../simulator/options.ts";
import { paperFleet } from "../../simulator/paper-fleet.ts";
import { drawPaperMix, type PaperMix } from "../../simulator/paper-mix.ts";
import type { SimulationResult } from "../../simulator/result.ts";
import type { Workload } from "../../simulator/workload.ts";
import type { BenchRequest } from "../bench.ts";
import { quantile } from "../statistics.ts";
import { ENTRANTS, workloadFor, type EntrantName } from "../../simulator/entrants/entrants.ts";
import { FROZEN_MIX } from "../../simulator/entrants/frozen-mix.ts";
import { runOne } from "./run-one.ts";
import { newStopwatch, timed, type Stopwatch } from "./stopwatch.ts";

/** The fleet's cycles follow each other at this distance at least. */
export const CYCLE_INTERVAL_MS = 5;

export interface Setting {
  readonly workload: Workload;
  readonly costs: Partial<SimulationCosts>;
  readonly seed: number;
  readonly starvedAfterMs?: number;
}

export const paperWorkload = (
  jobs: number,
  seed: number,
  change: Partial<PaperMix> = {},
): Workload => drawPaperMix({ ...FROZEN_MIX, ...change, jobs }, seed);

export function optionsOf(
  name: EntrantName,
  { workload, costs, seed, starvedAfterMs }: Setting,
  stopwatch?: Stopwatch,
): SimulationOptions {
  const open = schedulerWith(ENTRANTS[name].policies);
  return {
    fleet: paperFleet({ tenants: workload.tenants }),
    workload: workloadFor(name, workload),
    policy: name,
    openScheduler: stopwatch === undefined ? open : timed(open, stopwatch),
    seed,
    costs,
    samples: 120,
    keepsJobs: true,
    ...(starvedAfterMs !== undefined && { starvedAfterMs }),
  };
}

export interface DecisionCost {
  /** Milliseconds of the wall clock. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly chargedMs: number;
  /** Processor time of the whole simulation, all events and decisions, in seconds. */
  readonly cpuSeconds: number;
  /** GPU-seconds in service over the whole run. */
  readonly gpuSeconds: number;
}

/** How long one decision of ours takes here and now; the first ones warm the code up and do not count. */
export async function measureDecision(
  request: BenchRequest,
  workload: Workload,
): Promise<DecisionCost> {
  const stopwatch = newStopwatch();
  const setting = { workload, costs: { cycleIntervalMs: CYCLE_INTERVAL_MS }, seed: request.seed };
  const before = process.cpuUsage();
  const result = await runOne(optionsOf("tawfq", setting, stopwatch), request);
  const { user, system } = process.cpuUsage(before);
  const counted = stopwatch.decisionMs.slice(Math.floor(stopwatch.decisionMs.length / 10));
  const p99Ms = quantile(counted, 0.99);
  return {
    p50Ms: quantile(counted, 0.5),
    p99Ms,
    chargedMs: Math.max(1, Math.ceil(p99Ms)),
    cpuSeconds: (user + system) / 1e6,
    gpuSeconds: (result.fleet.gpus * result.endedAtMs) / 1_000,
  };
}

export type Results = ReadonlyMap<EntrantName, readonly SimulationResult[]>;

export async function compare(
  request: BenchRequest,
  names: readonly EntrantName[],
  settings: readonly Setting[],
): Promise<Results> {
  const results = new Map<EntrantName, SimulationResult[]>();
  for (const setting of settings) {
    for (const name of names) {
      const result = await runOne(optionsOf(name, setting), request);
      results.set(name, [...(results.get(name) ?? []), result]);
      request.say(
        `${name}, seed ${String(setting.seed)}: utilisation ${(100 * result.utilisation).toFixed(1)} %`,
      );
    }
  }
  return results;
}
