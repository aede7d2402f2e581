/** @file A job that goes on: the degrees of its former plan stay unless others save more than the stated part of the step. */

import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { writtenSite } from "../../../cli/planning/site-source.ts";
import type { PlannedDegrees } from "../../../domain/lease/launch-extras.ts";
import { parsePipeDream } from "../../../domain/model/parse-pipedream.ts";
import { randomFrom } from "../../../lib/random.ts";
import { graphModel } from "../../../planning/parallelism/models.ts";
import { planTraining, type TrainingPlan } from "../../../planning/parallelism/plan.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
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

it("keeps the virtual stages of a run, and how it shares out sequences, unless others save enough", async () => {
  const inside = { gbs: 337, latencyMs: 0.01 };
  const site: PlanSite = {
    ...siteOf(...["a", "b", "c", "d"].map((id) => host(id, 1, { inside }))),
    fabric: () => ({ gbs: 50, latencyMs: 0.01 }),
  };
  const free = { ...request, site, batch: 8 };
  const former = {
    ...{ dataParallel: 1, pipelineParallel: 4, tensorParallel: 1, expertParallel: 1, stepMs: 1 },
    contextParallel: 1,
  };
  const [two, three] = await Promise.all(
    [2, 3].map((runs) => replan(free, { ...former, virtualStages: runs })),
  );
  for (const [runs, replanned] of [
    [2, two],
    [3, three],
  ] as const) {
    if (replanned?.answer.kind !== "planned") throw new Error("no plan");
    const isOwn = replanned.answer.plan.split.runs === runs;
    expect(isOwn).toBe(replanned.isKept || replanned.saving === undefined);
    const fixed = { replicas: 1, stages: 4, width: 1, experts: 1, contexts: 1, runs };
    const alone = await planTraining({ ...free, fixed });
    if (alone.kind === "blocked") throw new Error(alone.message);
    expect(alone.plan.split.runs).toBe(runs);
  }
  const old = await replan(free, former);
  expect(old.answer.kind).toBe("planned");
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
    const { replicas, stages, width } = other.split;
    const alone = await planTraining({ ...request, fixed: { replicas, stages, width } });
    if (alone.kind === "blocked") throw new Error(alone.message);
    const wanted = 1 - stepMs / alone.plan.stepMs <= LEAST_SAVING;
    outcomes.add(wanted);
    expect([isKept, saving]).toEqual([wanted, 1 - stepMs / alone.plan.stepMs]);
    expect(degreesOf(answer.plan.split)).toEqual(degreesOf(wanted ? other.split : split));
  }
  expect(outcomes.size).toBe(2);
});

it("keeps degrees of a profiled model whose operators, cut anew, come near to the best", async () => {
  const file = "data/model-graphs/pipedream/gnmt_large.txt";
  const read = parsePipeDream(readFileSync(file, "utf8"), file);
  if (read.kind === "refused") throw new Error(read.problems[0]?.message);
  const profiled = {
    model: graphModel(read.graph, 125),
    site: writtenSite("x/a:2:V100-32,x/b:2:V100-32", { hasNvlink: true }),
    batch: 16,
    random: randomFrom(1, "plan"),
  };
  const former = {
    ...{ dataParallel: 1, pipelineParallel: 4, tensorParallel: 1, expertParallel: 1 },
    stepMs: 1,
  };
  const { answer, isKept, saving } = await replan(profiled, former);
  if (answer.kind === "blocked") throw new Error(answer.message);
  expect(isKept).toBe(true);
  expect(saving).toBeLessThanOrEqual(LEAST_SAVING);
  expect(answer.plan.split.stages).toBe(4);
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

it("keeps the virtual stages also where the next micro-batch does not go with them", async () => {
  const site: PlanSite = {
    ...siteOf(host("a", 1), host("b", 1)),
    fabric: () => ({ gbs: 0.2, latencyMs: 0.01 }),
  };
  const model = preset("gpt2-350m");
  for (const batch of [6, 30]) {
    const fixed = { replicas: 1, stages: 2, width: 1, experts: 1, contexts: 1, runs: 2 };
    const answer = await planTraining({ ...request, model, site, batch, fixed });
    expect(answer).toMatchObject({ kind: "planned", plan: { split: { runs: 2 } } });
  }
});
