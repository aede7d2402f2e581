/**
 * @file What a cluster remembers of the steps that runs measured: one record a run, the latest word of it.
 *
 * At most `MAX_STEPS`, of one tenant, model, GPU type and plan at most `MAX_PER_PLAN`: a plan that is full gives up its oldest, a full memory the oldest
 * of the plan that has most at the tenant that has most, ties to the oldest: no tenant pushes out what others measured. A word that is no step of its plan (`isNear`) is no word of steps. Pure. Cost: O(steps) a word.
 */

import {
  isNear,
  isStepMs,
  readPlannedStep,
  type KeptStep,
} from "../../domain/model/step-record.ts";
import { isFields } from "../../lib/fields.ts";

export const MAX_STEPS = 256;
export const MAX_PER_PLAN = 8;
const MAX_TEXT = 300;

/** Undefined for a word about something else, and for junk. */
export function readStepNote(word: unknown): KeptStep | undefined {
  if (!isFields(word)) return undefined;
  const { jobId, tenant, runId, attempt, measuredMs, atMs } = word;
  const planned = readPlannedStep(word["planned"]);
  const isNoted =
    planned !== undefined &&
    isText(jobId) &&
    isText(tenant) &&
    isText(runId) &&
    isCount(attempt) &&
    isCount(atMs) &&
    isStepMs(measuredMs);
  if (!isNoted || !isNear(planned, measuredMs)) return undefined;
  return { ...planned, run: `${jobId} ${runId} ${String(attempt)}`, tenant, measuredMs, atMs };
}

export function withStep(steps: readonly KeptStep[], step: KeptStep): readonly KeptStep[] {
  const former = steps.find(({ run }) => run === step.run);
  if (former !== undefined && former.atMs >= step.atMs) return steps;
  const all = [...steps.filter((kept) => kept !== former), step];
  const own = all.filter((kept) => planOf(kept) === planOf(step));
  if (own.length > MAX_PER_PLAN) return all.filter((kept) => kept !== own[0]);
  if (all.length <= MAX_STEPS) return all;
  const [gone] = ofMost(
    ofMost(all, ({ tenant }) => tenant),
    planOf,
  );
  return all.filter((kept) => kept !== gone);
}

/** Those of the groups that have most, in their order. */
function ofMost(
  steps: readonly KeptStep[],
  groupOf: (step: KeptStep) => string,
): readonly KeptStep[] {
  const counts = new Map<string, number>();
  for (const step of steps) counts.set(groupOf(step), (counts.get(groupOf(step)) ?? 0) + 1);
  const most = Math.max(...counts.values());
  return steps.filter((step) => counts.get(groupOf(step)) === most);
}

const planOf = ({ tenant, model, gpuType, plan }: KeptStep): string =>
  [tenant, model, gpuType, plan].join("\n");

const isText = (value: unknown): value is string =>
  typeof value === "string" && /^\S+$/.test(value) && value.length <= MAX_TEXT;
export const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
