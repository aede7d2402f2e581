/**
 * @file Reads the typical time of a training step from the file that ORBWEAVER_STEPS_FILE names, to which the processes of a run append.
 *
 * A line is a number of milliseconds: of one step, or the median of some in a row. The first `WARM_UP` lines are left out, because the first steps
 * compile, fill caches and wait for data; of the last `LAST_LINES` of the others the median counts, so that a checkpoint or an evaluation does not.
 * Its writer is a job, which may put anything in its place: what is no plain file is not read, and what is no time is left out. It lies beside the
 * file of measured bandwidth. Cost: a stat, and at most 256 KiB.
 */

import { join } from "node:path";
import { isStepMs } from "../../domain/model/step-record.ts";
import { median } from "../../lib/median.ts";
import type { Files } from "../ports/files.ts";
import { bandwidthDir, readEnd } from "./bandwidth-file.ts";

export const STEPS_FILE_VARIABLE = "ORBWEAVER_STEPS_FILE";
export const stepsFile = (launchDir: string): string => join(bandwidthDir(launchDir), "steps.txt");

const WARM_UP = 3;
const LEAST_LINES = 5;
const LAST_LINES = 101;
/** Characters. */
const LONGEST_LINE = 100;
const LINE = /^\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?:ms)?\s*$/;

/** Milliseconds; undefined when there is no file, or too few lines. */
export function readSteps(files: Files, launchDir: string): number | undefined {
  const text = readEnd(files, stepsFile(launchDir));
  return text === undefined ? undefined : stepIn(text);
}

/** Of a line that is being written the end is missing. */
export function stepIn(text: string): number | undefined {
  const whole = text.slice(0, text.lastIndexOf("\n") + 1);
  const times = whole
    .split("\n")
    .flatMap((line) => (line.length > LONGEST_LINE ? [] : Number(LINE.exec(line)?.[1] ?? NaN)))
    .filter(isStepMs)
    .slice(WARM_UP);
  return times.length < LEAST_LINES ? undefined : median(times.slice(-LAST_LINES));
}
