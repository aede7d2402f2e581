/** @file What every split's step has to be, by two judges that share no code with it: a floor of links, and a simulation of flows. */

import { expect } from "vitest";
import { simulateStep } from "../../../bench/plan/flow-simulation.ts";
import { linkFloorMs } from "../../../bench/plan/link-floor.ts";
import { simulatedPlan } from "../../../bench/plan/simulated-plan.ts";
import { MEGATRON_CORE } from "../../../planning/parallelism/framework.ts";
import type { PlanModel } from "../../../planning/parallelism/models.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
import { layerSums, planName, type Split } from "../../../planning/parallelism/split.ts";
import { openFloorMs, stepFloorMs } from "../../../planning/parallelism/step-floor.ts";
import { playedStep, stepTime } from "../../../planning/parallelism/step-time.ts";

export const ROUNDING = 1e-9;
/** Of the predicted step, what runs of its plan took. */
const MEASURED = 0.8;
const { gradientBytes } = MEGATRON_CORE;

interface Expected {
  readonly model: PlanModel;
  readonly site: PlanSite;
  /** How far the played step may be from the simulated one, as a share. */
  readonly within: number;
}

/** A link's bytes ÷ rate and the floor ≤ played step, the floor also where the plan's runs took less, the former ≤ bound; the played step is the simulated one; parts add up. */
export function expectStep(split: Split, { model, site, within }: Expected): void {
  const sums = layerSums(model);
  const bound = stepTime(split, { site, sums });
  const played = playedStep(split, { site, sums });
  expect(stepFloorMs(split, { site, sums })).toBeLessThanOrEqual(played.totalMs * (1 + ROUNDING));
  const open = openFloorMs(split, { site, sums });
  const openMs = split.runs === undefined ? open.oneRun : open.anyRuns;
  expect(openMs).toBeLessThanOrEqual(played.totalMs * (1 + ROUNDING));
  const shorter = { site: { ...site, measured: new Map([[planName(split), MEASURED]]) }, sums };
  const least = Math.max(stepFloorMs(split, shorter), openFloorMs(split, shorter).anyRuns);
  expect(least).toBeLessThanOrEqual(MEASURED * played.totalMs * (1 + ROUNDING));
  const plan = { model, site, split, gradientBytes };
  const simulatedMs = simulateStep(simulatedPlan(plan)).stepMs + played.parts.updateMs;
  expect(linkFloorMs(plan)).toBeLessThanOrEqual(played.totalMs * (1 + ROUNDING));
  expect(linkFloorMs(plan)).toBeLessThanOrEqual(bound.totalMs * (1 + ROUNDING));
  expect(Math.abs(played.totalMs / simulatedMs - 1)).toBeLessThan(within);
  for (const { totalMs, parts } of [bound, played]) {
    const together = Object.values(parts).reduce((sum, part) => sum + part, 0);
    expect(Math.abs(together / totalMs - 1)).toBeLessThan(ROUNDING);
  }
}
