/**
 * @file The rules between the keys of a job file: sizes of a gang that fit together, one way to order a checkpoint, arrays.
 *
 * They look at the raw value and judge only what can be read; what cannot is the schema's affair.
 */

import type { ValuePath } from "./file-problem.ts";
import { valueAt, type SchemaProblem } from "./schema-problems.ts";

export function jobRuleProblems(value: unknown): SchemaProblem[] {
  return [...gangProblems(value), ...checkpointProblems(value), ...arrayProblems(value)];
}

function gangProblems(file: unknown): SchemaProblem[] {
  const gpus = sizeAt(file, ["gang", "gpus"]);
  const min = sizeAt(file, ["gang", "min"]);
  const problems: SchemaProblem[] = [];
  if (gpus !== undefined && min !== undefined && min > gpus) {
    const message = `${min} is more than gang.gpus, ${gpus}`;
    problems.push(problem(file, ["gang", "min"], message, `write at most ${gpus}`));
  }
  const shapes = valueAt(file, ["gang", "shapes"]);
  if (!Array.isArray(shapes)) return problems;
  const seen = new Set<number>();
  for (const index of shapes.keys()) {
    const path = ["gang", "shapes", index];
    const shape = sizeAt(file, path);
    if (shape === undefined) continue;
    if (gpus !== undefined && shape > gpus) {
      const message = `${shape} is more than gang.gpus, ${gpus}`;
      problems.push(problem(file, path, message, "leave it out, or raise gang.gpus"));
    } else if (min !== undefined && shape < min) {
      const message = `${shape} is less than gang.min, ${min}`;
      problems.push(problem(file, path, message, "leave it out, or lower gang.min"));
    } else if (seen.has(shape)) {
      problems.push(problem(file, path, `${shape} is there twice`, "leave one out"));
    }
    seen.add(shape);
  }
  return problems;
}

const CHECKPOINT_KEYS: readonly string[] = ["signal", "command", "dir", "grace", "interval"];

function checkpointProblems(file: unknown): SchemaProblem[] {
  const path = ["run", "checkpoint"];
  const checkpoint = valueAt(file, path);
  if (typeof checkpoint !== "object" || checkpoint === null || Array.isArray(checkpoint)) return [];
  const ways = ["signal", "command"].filter((way) => valueAt(checkpoint, [way]) !== undefined);
  if (ways.length === 1) return [];
  // A misspelt key is a problem already, and may well be the way that seems to be missing.
  const hasOtherKeys = Object.keys(checkpoint).some((key) => !CHECKPOINT_KEYS.includes(key));
  if (ways.length === 0 && hasOtherKeys) return [];
  if (ways.length === 2) {
    return [
      problem(
        file,
        [...path, "command"],
        "signal and command are both given",
        "keep one of the two",
      ),
    ];
  }
  const remedy =
    "write signal: USR1, or command: [...], whichever makes the processes save their work";
  return [problem(file, path, "neither signal nor command is given", remedy)];
}

/** Starts of tasks, retries included, that the history of one workflow holds. */
const MAX_TASK_STARTS = 1_000_000;

function arrayProblems(file: unknown): SchemaProblem[] {
  const count = sizeAt(file, ["array", "count"]);
  if (count === undefined) return [];
  const problems: SchemaProblem[] = [];
  const attempts = sizeAt(file, ["retry", "attempts"]) ?? 1;
  if (count * attempts > MAX_TASK_STARTS) {
    const message = `${attempts} attempts of ${count} tasks are more than ${MAX_TASK_STARTS} starts`;
    const remedy = `write at most ${Math.floor(MAX_TASK_STARTS / count)}, or submit several arrays`;
    problems.push(problem(file, ["retry", "attempts"], message, remedy));
  }
  const gpus = sizeAt(file, ["gang", "gpus"]);
  const min = sizeAt(file, ["gang", "min"]);
  const remedy = "leave it out; all tasks of an array have gang.gpus";
  if (gpus !== undefined && min !== undefined && min < gpus) {
    const message = `${min} is less than gang.gpus, but tasks of an array do not shrink`;
    problems.push(problem(file, ["gang", "min"], message, remedy));
  }
  const shapes = valueAt(file, ["gang", "shapes"]);
  if (
    Array.isArray(shapes) &&
    shapes.some((shape) => typeof shape === "number" && shape !== gpus)
  ) {
    const message = "there are smaller shapes, but tasks of an array do not shrink";
    problems.push(problem(file, ["gang", "shapes"], message, remedy));
  }
  return problems;
}

function problem(file: unknown, path: ValuePath, message: string, remedy: string): SchemaProblem {
  return { path, part: "value", value: valueAt(file, path), message, remedy };
}

/** A whole number from 1, as sizes and counts are. */
function sizeAt(file: unknown, path: ValuePath): number | undefined {
  const value = valueAt(file, path);
  return typeof value === "number" && Number.isInteger(value) && value >= 1 ? value : undefined;
}
