/** @file How the figures move: over the offered load, and over what a preemption costs; not one point. */

import type { BenchRequest, BenchTable } from "../bench.ts";
import { figureText } from "../report.ts";
import { optionsOf, paperWorkload } from "./compare.ts";
import type { EntrantName } from "../../simulator/entrants/entrants.ts";
import { FROZEN_MIX } from "../../simulator/entrants/frozen-mix.ts";
import { figuresOf, type Figures } from "./figures.ts";
import { percent } from "./policy-bars.ts";
import { runOne } from "./run-one.ts";
import type { SimulationCosts } from "../../simulator/options.ts";

const LOADS = [0.5, 0.7, 0.85, 0.95, 1.05, 1.2] as const;
const CHECKPOINT_MS = [500, 2_000, 10_000, 30_000] as const;
const OVER_LOADS: readonly EntrantName[] = ["fifo-backfill", "bin-packing", "tawfq"];

interface SweepPoint {
  readonly policy: EntrantName;
  readonly offeredLoad: number;
  readonly checkpointMs: number;
  readonly figures: Figures;
}

export async function sweep(
  request: BenchRequest,
  jobs: number,
  costs: Partial<SimulationCosts>,
): Promise<readonly SweepPoint[]> {
  const points: SweepPoint[] = [];
  const add = async (policy: EntrantName, load: number, checkpointMs: number): Promise<void> => {
    request.say(`sweep: ${policy} at load ${String(load)}, preemption ${String(checkpointMs)} ms`);
    const workload = paperWorkload(jobs, request.seed, { offeredLoad: load });
    const setting = { workload, costs: { ...costs, checkpointMs }, seed: request.seed };
    const figures = figuresOf(await runOne(optionsOf(policy, setting), request));
    points.push({ policy, offeredLoad: load, checkpointMs, figures });
  };
  for (const load of LOADS) for (const policy of OVER_LOADS) await add(policy, load, 2_000);
  for (const checkpointMs of CHECKPOINT_MS)
    await add("tawfq", FROZEN_MIX.offeredLoad, checkpointMs);
  return points;
}

export const sweepTable = (points: readonly SweepPoint[]): BenchTable => ({
  title:
    "Over load and preemption cost. util: %; p99: wait of inference, ms; queue: mean time of training in the queue, s; lost: of training to preemption, %",
  columns: ["POLICY", "LOAD", "COST S", "UTIL", "P99", "QUEUE", "LOST", "EVICTED"],
  rows: points.map(({ policy, offeredLoad, checkpointMs, figures }) => [
    policy,
    offeredLoad.toFixed(2),
    (checkpointMs / 1_000).toFixed(1),
    percent(figures.utilisation).toFixed(1),
    figureText(figures.inferenceP99Ms),
    figureText(figures.trainingQueuedMs / 1_000),
    percent(figures.trainingLost).toFixed(2),
    String(figures.evictions),
  ]),
});
