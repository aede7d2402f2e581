/**
 * @file What a cluster remembers of the steps that runs measured: one record a run, the latest word of it.
 *
 * At most `MAX_STEPS`, of one model, GPU type and plan at most `MAX_PER_PLAN`: a plan that is full gives up its oldest, a full memory the oldest of the
 * plan that has most, ties to the oldest of all. A word that is no step of its plan (`isNear`) is no word of steps. Pure. Cost: O(steps) a word.
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
  const { jobId, runId, attempt, measuredMs, atMs } = word;
  const planned = readPlannedStep(word["planned"]);
  const isNoted =
    planned !== undefined &&
    isText(jobId) &&
    isText(runId) &&
    isCount(attempt) &&
    isCount(atMs) &&
    isStepMs(measuredMs);
  if (!isNoted || !isNear(planned, measuredMs)) return undefined;
  return { ...planned, run: `${jobId} ${runId} ${String(attempt)}`, measuredMs, atMs };
}

export function withStep(steps: readonly KeptStep[], step: KeptStep): readonly KeptStep[] {
  const former = steps.find(({ run }) => run === step.run);
  if (former !== undefined && former.atMs >= step.atMs) return steps;
  const all = [...steps.filter((kept) => kept !== former), step];
  const own = all.filter((kept) => planOf(kept) === planOf(step));
  if (own.length > MAX_PER_PLAN) return all.filter((kept) => kept !== own[0]);
  if (all.length <= MAX_STEPS) return all;
  const counts = new Map<string, number>();
  for (const kept of all) counts.set(planOf(kept), (counts.get(planOf(kept)) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const gone = all.find((kept) => counts.get(planOf(kept)) === most);
  return all.filter((kept) => kept !== gone);
}

const planOf = ({ model, gpuType, plan }: KeptStep): string => [model, gpuType, plan].join("\n");

const isText = (value: unknown): value is string =>
  typeof value === "string" && /^\S+$/.test(value) && value.length <= MAX_TEXT;
const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
