/**
 * @file What a cluster remembers of the steps that runs measured: one record a run, the latest word of it.
 *
 * At most `MAX_STEPS`, of one tenant, model, GPU type and plan at most `MAX_PER_PLAN` (bounded-records.ts). A word that is no step of its plan
 * (`isNear`) is no word of steps. Pure. Cost: O(steps) a word.
 */

import {
  isNear,
  isStepMs,
  readPlannedStep,
  type KeptStep,
} from "../../domain/model/step-record.ts";
import { isFields } from "../../lib/fields.ts";
import { withRecord } from "./bounded-records.ts";

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
    isWord(jobId) &&
    isWord(tenant) &&
    isWord(runId) &&
    isCount(attempt) &&
    isCount(atMs) &&
    isStepMs(measuredMs);
  if (!isNoted || !isNear(planned, measuredMs)) return undefined;
  return { ...planned, run: `${jobId} ${runId} ${String(attempt)}`, tenant, measuredMs, atMs };
}

export const withStep = (steps: readonly KeptStep[], step: KeptStep): readonly KeptStep[] =>
  withRecord(steps, step, { groupOf: planOf, mostInGroup: MAX_PER_PLAN, most: MAX_STEPS });

const planOf = ({ tenant, model, gpuType, plan }: KeptStep): string =>
  [tenant, model, gpuType, plan].join("\n");

export const isWord = (value: unknown): value is string =>
  typeof value === "string" && /^\S+$/.test(value) && value.length <= MAX_TEXT;
export const isCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
