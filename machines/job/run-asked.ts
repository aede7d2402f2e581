/**
 * @file As which run a job, or an array, answers when it is asked what it holds.
 *
 * A run that was reset to a later task repeats the answers of the run before under an id of its own. What it did then may not hang on that id, or its history
 * would not replay; the question, which is in history, names the run that was asked.
 */

import type { RunId } from "../../domain/values/ids.ts";
import { isFields } from "../../lib/fields.ts";
import { ASKED_RUN_RULES } from "../../protocol/control-contract.ts";

/** Nothing where the question names none: it is of a former release, or junk. */
export function runNamedBy(question: unknown): { readonly askedRun?: RunId } {
  const named = isFields(question) ? question["runId"] : undefined;
  return typeof named === "string" ? { askedRun: named as RunId } : {}; // as the server names it
}

export const runAsked = (
  { askedRun }: { readonly askedRun?: RunId },
  { rules, runId }: { readonly rules: number; readonly runId: RunId },
): RunId => (rules >= ASKED_RUN_RULES ? (askedRun ?? runId) : runId);
