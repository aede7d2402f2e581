/** @file Tasks of an array as Slurm's `--array` writes them (`0-15`, `1,3,5`, `0-99%10`, `0-15:4`), of scripts and of the flag. */

import type { JobFile } from "../../domain/job/job-file.ts";
import { highestNumber, MAX_TASKS, parseTaskRanges } from "../../domain/job/task-ranges.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { wholeNumber } from "./option-values.ts";

export type ArrayKeys = NonNullable<JobFile["array"]>;

/** The array has as many tasks as its highest number says, of `0-99:5` 100; undefined for other words. */
export function arrayOfTasks(value: string): ArrayKeys | undefined {
  const [, ranges = "", most] = /^([^%]*)(?:%(\d{1,6}))?$/.exec(value) ?? [];
  const read = parseTaskRanges(ranges, MAX_TASKS);
  if (read.kind === "refused") return undefined;
  const count = highestNumber(ranges) + 1;
  return {
    count,
    ...(read.value.length < count && { tasks: ranges }),
    ...(most !== undefined && { parallel: Number(most) }),
  };
}

/** `1000` is how many there are, as everywhere in Orbweaver; all else names tasks. Throws BAD_INPUT. */
export function arrayFlag(text: string): ArrayKeys {
  if (/^\d+$/.test(text)) return { count: wholeNumber("--array", 1)(text) };
  const array = arrayOfTasks(text);
  if (array !== undefined) return array;
  throw new OrbweaverError(
    "BAD_INPUT",
    `--array ${JSON.stringify(text)} names no tasks below ${String(MAX_TASKS)}. Write how many there are, e.g. --array 100, or tasks such as 0-99:5%10.`,
  );
}
