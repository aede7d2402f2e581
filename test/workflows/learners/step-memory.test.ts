/** @file The steps that a cluster remembers: one record a run, bounded, and none that can be no step of its plan. */

import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import type { StepNote } from "../../../protocol/model-messages.ts";
import { NO_MEMORY, takeIn } from "../../../workflows/learners/model-memory.ts";
import { MAX_PER_PLAN, MAX_STEPS } from "../../../workflows/learners/step-memory.ts";

const PLANNED = {
  ...{ model: "gpt2 1234", gpuType: "A100", plan: "DP 8 × PP 1 × TP 1, micro-batch 4" },
  ...{ computeMs: 900, communicationMs: 100, otherMs: 0, predictedMs: 1000 },
};
const note = (job: string, more: Partial<StepNote> = {}): StepNote => ({
  ...{ jobId: jobId(job), tenant: "team-a", runId: "run", attempt: 1 },
  ...{ planned: PLANNED, measuredMs: 1200, atMs: 1 },
  ...more,
});
const taken = (...words: readonly unknown[]) => takeIn(NO_MEMORY, words, "eu");

test("a run has one record: its latest word", () => {
  const { steps, unfit } = taken(
    note("a"),
    note("a", { measuredMs: 1300, atMs: 5 }),
    note("a", { measuredMs: 1250, atMs: 3 }),
    note("a", { attempt: 2 }),
    note("b"),
  );
  expect(steps?.map(({ run, measuredMs }) => [run, measuredMs])).toEqual([
    ["a run 1", 1300],
    ["a run 2", 1200],
    ["b run 1", 1200],
  ]);
  expect(unfit).toBe(0);
});

describe("counted and left out", () => {
  test.each([
    ["a step in seconds", note("a", { measuredMs: 1.2 })],
    ["nine times the plan's", note("a", { measuredMs: 9_000 })],
    ["no time", note("a", { measuredMs: NaN })],
    ["a time below nothing", note("a", { measuredMs: -1 })],
    ["no terms", note("a", { planned: { ...PLANNED, computeMs: NaN } })],
    ["a long name", note("a", { planned: { ...PLANNED, model: "m".repeat(201) } })],
    ["nobody's", note("a", { tenant: "" })],
    ["a job of two words", note("a", { jobId: "a b" as StepNote["jobId"] })],
  ])("%s", (_name, word) => {
    const { steps, unfit } = taken(word);
    expect([steps, unfit]).toEqual([undefined, 1]);
  });
});

test("measured bandwidth is as before, and carries nothing of steps", () => {
  expect(taken({ ...note("a"), gbs: 100, window: 0, gpus: [] }).samples).toEqual([]);
  expect(taken(note("a")).samples).toEqual([]);
});

test("a plan gives up its oldest run, and a full memory one of the plan that has most", () => {
  const one = taken(...Array.from({ length: 20 }, (_, at) => note(`j${String(at)}`)));
  expect(one.steps).toHaveLength(MAX_PER_PLAN);
  expect(one.steps?.[0]?.run).toBe(`j${String(20 - MAX_PER_PLAN)} run 1`);
  const many = Array.from({ length: 2 * MAX_STEPS }, (_, at) =>
    note(`k${String(at)}`, { planned: { ...PLANNED, plan: `DP ${String(at)}` } }),
  );
  const full = takeIn(one, many, "eu").steps ?? [];
  expect(full).toHaveLength(MAX_STEPS);
  expect(full.filter(({ plan }) => plan === PLANNED.plan).length).toBeLessThanOrEqual(1);
});

test("no tenant pushes out what another measured, by runs of its plan or by plans of its own", () => {
  const own = note("own");
  const flood = (plan: (at: number) => string) =>
    Array.from({ length: 2 * MAX_STEPS }, (_, at) =>
      note(`f${String(at)}`, {
        tenant: "team-b",
        planned: { ...PLANNED, plan: plan(at) },
      }),
    );
  for (const plan of [() => PLANNED.plan, (at: number) => `DP ${String(at)}`]) {
    const { steps = [] } = taken(own, ...flood(plan));
    expect(steps.length).toBeLessThanOrEqual(MAX_STEPS);
    expect(steps.map(({ run }) => run)).toContain("own run 1");
  }
});
