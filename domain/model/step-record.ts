/**
 * @file A training step as a plan predicts it and as a run measured it: what a cluster keeps of each run, and learns from.
 *
 * All times are milliseconds of one step. The terms are those of data sheets and stated links, whatever corrections the prediction had, so that
 * records of different times can be compared.
 */

import { isFields } from "../../lib/fields.ts";

export interface StepTerms {
  /** With the waits in the pipeline for the compute of others. */
  readonly computeMs: number;
  /** Whatever crosses a link, with the waits for it. */
  readonly communicationMs: number;
  /** Nothing corrects it: the optimiser's update. */
  readonly otherMs: number;
}

export interface PlannedStep extends StepTerms {
  /** Name and hash of the layers. */
  readonly model: string;
  /** Types of the GPUs, joined by `+`. */
  readonly gpuType: string;
  /** Degrees and micro-batch, in words. */
  readonly plan: string;
  /** With the corrections of its time. */
  readonly predictedMs: number;
}

/** The record of one run of a job. */
export interface KeptStep extends PlannedStep {
  /** Which run, as one word. */
  readonly run: string;
  /** Whose job it was. */
  readonly tenant: string;
  readonly measuredMs: number;
  readonly atMs: number;
}

/** More than a day is no step, nor is less than a microsecond. */
const MAX_STEP_MS = 1e8;
const LEAST_STEP_MS = 1e-3;
const MAX_TEXT = 200;
/** Reports that are further off say seconds for milliseconds, or train another model than they name. */
const MOST_OFF = 8;

export const isStepMs = (value: unknown): value is number =>
  typeof value === "number" && value >= LEAST_STEP_MS && value <= MAX_STEP_MS;

/** Whether a measured step can be one of the planned step. */
export function isNear(
  { computeMs, communicationMs, otherMs }: StepTerms,
  measuredMs: number,
): boolean {
  const off = measuredMs / (computeMs + communicationMs + otherMs);
  return off <= MOST_OFF && off >= 1 / MOST_OFF;
}

/** Only the fields of one; undefined for anything else. */
export function readPlannedStep(value: unknown): PlannedStep | undefined {
  if (!isFields(value)) return undefined;
  const { model, gpuType, plan, predictedMs, computeMs, communicationMs, otherMs } = value;
  const isPlanned =
    isText(model) &&
    isText(gpuType) &&
    isText(plan) &&
    isStepMs(predictedMs) &&
    isTerm(computeMs) &&
    computeMs > 0;
  if (!isPlanned || !isTerm(communicationMs) || !isTerm(otherMs)) return undefined;
  return { model, gpuType, plan, predictedMs, computeMs, communicationMs, otherMs };
}

const isText = (value: unknown): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= MAX_TEXT;
const isTerm = (value: unknown): value is number =>
  typeof value === "number" && value >= 0 && value <= MAX_STEP_MS;
