/** @file Whether a signal to a lobby is what it claims to be: junk must not be run. */

import { JOB_CLASSES, type JobClass } from "../../domain/job/job.ts";
import type { LobbyCredit, LobbyRow } from "../../domain/lease/lobby.ts";
import type { LobbyLeave } from "../../protocol/lobby.ts";
import { isFields } from "../../lib/fields.ts";

/** Temporal's own limit of a workflow id. */
const MAX_ID = 1_000;

/** The rows and credits that can be read; nothing where there are none. */
export function readNews(value: unknown): {
  readonly rows: readonly LobbyRow[];
  readonly credits: readonly LobbyCredit[];
} {
  const { rows, credits } = isFields(value) ? value : {};
  return {
    rows: Array.isArray(rows) ? rows.filter(isRow) : [],
    credits: Array.isArray(credits) ? credits.filter(isCredit) : [],
  };
}

/** All credits with lower numbers are forgotten. */
export function readCreditsFrom(value: unknown): number {
  const { creditsFrom } = isFields(value) ? value : {};
  return isCount(creditsFrom) ? creditsFrom : Infinity;
}

export const isLeave = (value: unknown): value is LobbyLeave =>
  isFields(value) &&
  isId(value["jobId"]) &&
  isId(value["runId"]) &&
  isCount(value["seq"]) &&
  isClass(value["class"]);

export const isRow = (value: unknown): value is LobbyRow =>
  isFields(value) &&
  isLeave(value) &&
  isCount(value["round"]) &&
  isCount(value["gpus"]) &&
  Number.isFinite(value["priority"]) &&
  Number.isFinite(value["submittedAtMs"]);

export const isCredit = (value: unknown): value is LobbyCredit =>
  isFields(value) && isCount(value["number"]) && isClass(value["class"]);

export const isClass = (value: unknown): value is JobClass =>
  JOB_CLASSES.some((name) => name === value);

export const isId = (value: unknown): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= MAX_ID;

export const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0;
