/**
 * @file Predicted steps beside a flow simulation, and every candidate beside what its links carry: all presets on twelve fleets.
 *
 * The simulation imports nothing of the planner. A candidate overloads a link when the link's bytes ÷ its rate are more than the predicted step.
 */

import { MODEL_PRESETS } from "../../domain/model/model-presets.ts";
import { randomFrom } from "../../lib/random.ts";
import { MEGATRON_CORE } from "../../planning/parallelism/framework.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { planTraining } from "../../planning/parallelism/plan.ts";
import { solverFor } from "../../solvers/index.ts";
import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { CHECKED_FLEETS } from "./checked-fleets.ts";
import { simulateStep } from "./flow-simulation.ts";
import { linkFloorMs } from "./link-floor.ts";
import { simulatedPlan } from "./simulated-plan.ts";

export interface LinkCheck {
  readonly fleet: string;
  readonly model: string;
  readonly batch: number;
  /** Predicted ÷ simulated. */
  readonly ratio: number;
  readonly candidates: number;
  /** Candidates below what a link needs. */
  readonly overloads: number;
  /** The largest share of a predicted step in which a link is busy. */
  readonly busiest: number;
}

/** Rounding of sums in another order. */
const ROUNDING = 1e-9;

export async function checkLinks(
  model: string,
  fleet: string,
  batch: number,
): Promise<LinkCheck | undefined> {
  const [shape, site] = [MODEL_PRESETS.get(model), CHECKED_FLEETS.get(fleet)];
  if (shape === undefined || site === undefined) throw new RangeError(`no ${model} on ${fleet}`);
  const plannable = presetModel(model, shape);
  const { gradientBytes } = MEGATRON_CORE;
  let [candidates, overloads, busiest] = [0, 0, 0];
  const answer = await planTraining({
    model: plannable,
    site,
    batch,
    random: randomFrom(1, "plan"),
    solver: solverFor,
    onCandidate: (split, { totalMs }) => {
      const share = linkFloorMs({ model: plannable, site, split, gradientBytes }) / totalMs;
      candidates += 1;
      if (share > 1 + ROUNDING) overloads += 1;
      busiest = Math.max(busiest, share);
    },
  });
  if (answer.kind === "blocked") return undefined;
  const { split, stepMs, parts } = answer.plan;
  const { stepMs: simulatedMs } = simulateStep(
    simulatedPlan({ model: plannable, site, split, gradientBytes }),
  );
  const ratio = stepMs / (simulatedMs + parts.updateMs);
  return { fleet, model, batch, ratio, candidates, overloads, busiest };
}

const BATCHES = [32, 256] as const;

export async function measureLinks(
  say: (line: string) => void,
): Promise<{ readonly bars: readonly Bar[]; readonly table: BenchTable }> {
  const checks: LinkCheck[] = [];
  for (const fleet of CHECKED_FLEETS.keys()) {
    say(`plan: every model on ${fleet}`);
    for (const model of MODEL_PRESETS.keys())
      for (const batch of BATCHES) {
        const check = await checkLinks(model, fleet, batch);
        if (check !== undefined) checks.push(check);
      }
  }
  const sum = (of: (check: LinkCheck) => number): number =>
    checks.reduce((total, check) => total + of(check), 0);
  const ratios = checks.map(({ ratio }) => Math.round(ratio / ROUNDING) * ROUNDING);
  return {
    bars: [
      barOf({
        id: "links-overloaded",
        unit: "candidates",
        target: exactly(0),
        got: sum(({ overloads }) => overloads),
        note: `of ${String(sum(({ candidates }) => candidates))} candidates, bytes over a link ÷ its rate above the predicted step`,
      }),
      barOf({ id: "steps-simulated", unit: "plans", target: atLeast(200), got: checks.length }),
      barOf({
        id: "step-to-simulated-least",
        unit: "×",
        target: atLeast(1),
        got: Math.min(...ratios),
      }),
      barOf({
        id: "step-to-simulated-most",
        unit: "×",
        target: atMost(1.1),
        got: Math.max(...ratios),
      }),
      barOf({
        id: "busiest-link",
        unit: "%",
        target: REPORTED,
        got: 100 * Math.max(...checks.map(({ busiest }) => busiest)),
        note: "the share of a candidate's predicted step in which a link is busy, at most",
      }),
    ],
    table: {
      title: "Predicted steps ÷ a max–min flow simulation of them",
      columns: ["FLEET", "PLANS", "LEAST", "MOST", "CANDIDATES", "OVERLOADED"],
      rows: [...CHECKED_FLEETS.keys()].map((fleet) => {
        const own = checks.filter((check) => check.fleet === fleet);
        return [
          fleet,
          String(own.length),
          Math.min(...own.map(({ ratio }) => ratio)).toFixed(4),
          Math.max(...own.map(({ ratio }) => ratio)).toFixed(4),
          String(own.reduce((total, { candidates }) => total + candidates, 0)),
          String(own.reduce((total, { overloads }) => total + overloads, 0)),
        ];
      }),
    },
  };
}
