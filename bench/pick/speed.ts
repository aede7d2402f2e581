/**
 * @file How long a pick takes among 32 GPUs, and how many picks fall back to the compact choice.
 *
 * Each pick is timed in processor time of the process, because the machine may be shared; wall time stands beside it. The model is the
 * one that serves: it remembers what it was asked, and the first hundred picks, while code is compiled, are not timed.
 */

import { randomFrom } from "../../lib/random.ts";
import { openSyncPredictor, type SurrogateModel } from "../../models/bandwidth/surrogate.ts";
import { searchPick } from "../../scheduling/pick/search-pick.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { quantile } from "../statistics.ts";
import { PAPER_SAMPLES } from "./compare.ts";
import { scenariosOf } from "./scenarios.ts";
import type { Trainings } from "./trained.ts";
import { PRODUCT_WAY } from "./training-sets.ts";
import type { Truth } from "./truth.ts";

export interface Setting {
  readonly request: BenchRequest;
  readonly truth: Truth;
  readonly trainings: Trainings;
}

/** The model of the first seed, from the sets that the product measures. */
export async function modelFor({ request, truth, trainings }: Setting): Promise<SurrogateModel> {
  const target = { samples: PAPER_SAMPLES, seed: request.seed, training: PRODUCT_WAY };
  return (await trainings(truth, target)).model;
}

const WARM_UP = 100;
const EACH = 20;

export async function measureSpeed(setting: Setting): Promise<readonly Bar[]> {
  const { request, truth } = setting;
  request.say("pick: time of a pick among the GPUs of the measured cluster");
  const { domain } = truth;
  const { seed } = request;
  const predictor = openSyncPredictor(await modelFor(setting), domain, { version: "ours" });
  const sizes = { smallest: 1, largest: request.size("largest"), each: EACH };
  const scenarios = scenariosOf(domain, sizes, randomFrom(seed, "speed"));
  const cpuMs: number[] = [];
  const wallMs: number[] = [];
  let failed = 0;
  for (const [at, { gpus, freeMasks }] of scenarios.entries()) {
    const time = stopwatch();
    try {
      if (searchPick({ predictor, gpus, freeMasks }) === undefined) failed += 1;
    } catch {
      failed += 1;
    }
    const took = time();
    if (at < WARM_UP) continue;
    cpuMs.push(took.cpuMs);
    wallMs.push(took.wallMs);
  }
  return [
    barOf({
      id: "pick p99 32 GPUs",
      unit: "ms CPU",
      target: atMost(10),
      got: quantile(cpuMs, 0.99),
      paper: 250,
      note: `p50 ${quantile(cpuMs, 0.5).toFixed(2)}; wall p50 ${quantile(wallMs, 0.5).toFixed(2)}, p99 ${quantile(wallMs, 0.99).toFixed(2)} ms`,
    }),
    barOf({
      id: "picks that fell back",
      unit: "%",
      target: atMost(1),
      got: (100 * failed) / scenarios.length,
    }),
    barOf({ id: "picks timed", unit: "picks", target: REPORTED, got: cpuMs.length }),
  ];
}

export function stopwatch(): () => { readonly cpuMs: number; readonly wallMs: number } {
  const cpu = process.cpuUsage();
  const wall = performance.now();
  return () => {
    const { user, system } = process.cpuUsage(cpu);
    return { cpuMs: (user + system) / 1_000, wallMs: performance.now() - wall };
  };
}
