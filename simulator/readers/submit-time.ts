/** @file When a job of a trace was submitted: a wall time, or a number of some unit since the trace's start. */

import { decimal } from "../../domain/values/csv.ts";
import { shown } from "../../domain/values/file-problem.ts";
import type { Problem } from "../../domain/values/problem.ts";
import { wallTimeMs } from "../../domain/values/wall-time.ts";

interface SubmitTime {
  readonly ms: number;
  readonly isWallTime: boolean;
}

/** A wall time, or a number of units since the trace's start of `msPerUnit` each. */
export function submitTime(
  { line, cell }: { readonly line: number; readonly cell: string },
  { msPerUnit, name }: { readonly msPerUnit: number; readonly name: string },
): SubmitTime | Problem {
  const units = decimal(cell);
  if (units !== undefined && Number.isFinite(units))
    return { ms: units * msPerUnit, isWallTime: false };
  const ms = wallTimeMs(cell);
  if (ms !== undefined) return { ms, isWallTime: true };
  return {
    line,
    message: `it was submitted at ${cell === "" ? "no time" : shown(cell)}`,
    remedy: `write ${name} from the start of the trace, or a real time as 2017-10-27 00:23:25`,
  };
}
