/** @file A job that goes on: the degrees of its former plan stay unless others save more than the stated part of the step. */

import { expect, it } from "vitest";
import type { PlannedDegrees } from "../../../domain/lease/launch-extras.ts";
import { randomFrom } from "../../../lib/random.ts";
import { planTraining, type TrainingPlan } from "../../../planning/parallelism/plan.ts";
import { LEAST_SAVING, replan } from "../../../planning/parallelism/replan.ts";
import { host, preset, siteOf } from "./sites.ts";

const request = {
  model: preset("gpt2-1.3b"),
  site: siteOf(host("a", 8)),
  batch: 64,
  random: randomFrom(1, "plan"),
};
const degreesOf = ({ replicas, stages, width }: TrainingPlan["split"]): PlannedDegrees => ({
  dataParallel: replicas,
  pipelineParallel: stages,
  tensorParallel: width,
  expertParallel: 1,
  stepMs: 1,
});

async function best(): Promise<TrainingPlan> {
  const answer = await planTraining(request);
  if (answer.kind === "blocked") throw new Error(answer.message);
  return answer.plan;
}

it("keeps each of the degrees that the best ones do not beat by enough, and changes all others", async () => {
  const { split, stepMs, others } = await best();
  const outcomes = new Set<boolean>();
  for (const other of others) {
    const { answer, isKept, saving } = await replan(request, degreesOf(other.split));
    if (answer.kind === "blocked") throw new Error(answer.message);
    const wanted = 1 - stepMs / other.stepMs <= LEAST_SAVING;
    outcomes.add(wanted);
    expect([isKept, saving]).toEqual([wanted, 1 - stepMs / other.stepMs]);
    expect(degreesOf(answer.plan.split)).toEqual(degreesOf(wanted ? other.split : split));
  }
  expect(outcomes.size).toBe(2);
});

it("plans anew where the former degrees are the best, do not fit the GPUs, or there were none", async () => {
  const { split } = await best();
  for (const former of [
    undefined,
    degreesOf(split),
    { ...degreesOf(split), dataParallel: 3, pipelineParallel: 5 },
  ]) {
    const { answer, isKept, saving } = await replan(request, former);
    expect([answer.kind === "planned" && degreesOf(answer.plan.split), isKept, saving]).toEqual([
      degreesOf(split),
      false,
      undefined,
    ]);
  }
});
