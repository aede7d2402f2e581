/**
 * @file Warnings about an nccl-tests run: it failed, was cut off, or lacks rows or ranks.
 *
 * Compares the run with its own footer: the printed average must be the mean of the rows, or rows are missing.
 */

import { meanBusBwGBs, type NcclRun } from "./nccl-run.ts";
import { quotedLine, type Problem } from "../values/problem.ts";

/** Rows are rounded to 0.01 GB/s, so their mean is within half of that of the true one. */
const ROW_ROUNDING_GBS = 0.0051;
/** The footer is printed with six digits. */
const FOOTER_ROUNDING = 1e-5;

export function runWarnings(run: NcclRun): Problem[] {
  return [endWarning(run), rankWarning(run), averageWarning(run)].flatMap((found) => found ?? []);
}

/** Why a text without a single row is refused: NCCL's own words where it has some. */
export function emptiness(runs: readonly NcclRun[]): Problem[] {
  const failed = runs.flatMap(({ failure }) => (failure === undefined ? [] : [failure]));
  if (failed.length > 0) {
    return failed.map(({ line, text }) => ({
      line,
      message: `the run failed before its first row: ${quotedLine(text)}`,
      remedy: "mend the cause and run it again; there is nothing to import",
    }));
  }
  const [run] = runs;
  if (run !== undefined) {
    const message = "the run has no rows";
    return [{ line: run.line, message, remedy: "give the whole log, to its footer" }];
  }
  const message = "this is no output of nccl-tests: there is no table of size, count, type, …";
  return [{ line: 1, message, remedy: "give what all_reduce_perf or its kin print" }];
}

function nameOf(run: NcclRun): string {
  return run.op === "unknown" ? "run" : `${run.op} run`;
}

function endWarning(run: NcclRun): Problem | undefined {
  if (run.failure !== undefined) {
    return {
      line: run.failure.line,
      message: `the ${nameOf(run)} from line ${run.line} failed after ${run.rows.length} rows: ${quotedLine(run.failure.text)}`,
      remedy: "its figures end there; run it again",
    };
  }
  if (run.rows.length === 0) {
    const message = `the ${nameOf(run)} from here on has no rows`;
    return { line: run.line, message, remedy: "run it again, or give its whole log" };
  }
  if (run.avgBusBwGBs === undefined) {
    return {
      line: run.line,
      message: "the run from here on has no footer (Avg bus bandwidth)",
      remedy: "it may have been cut off; its rows are used as they are",
    };
  }
  return undefined;
}

function rankWarning(run: NcclRun): Problem | undefined {
  const highest = run.ranks.at(-1)?.rank ?? -1;
  if (highest + 1 === run.ranks.length) return undefined;
  return {
    line: run.line,
    message: `ranks up to ${highest} are named, but only ${run.ranks.length} of them are listed`,
    remedy: "give the whole log if the placement of the ranks matters",
  };
}

function averageWarning(run: NcclRun): Problem | undefined {
  const mean = meanBusBwGBs(run);
  if (mean === undefined || run.avgBusBwGBs === undefined || run.isElided) return undefined;
  const tolerance = ROW_ROUNDING_GBS + run.avgBusBwGBs * FOOTER_ROUNDING;
  if (Math.abs(mean - run.avgBusBwGBs) <= tolerance) return undefined;
  return {
    line: run.line,
    message: `the rows average ${mean.toFixed(3)} GB/s, the footer says ${run.avgBusBwGBs}`,
    remedy: "rows were left out of the text; the rows that are there are used",
  };
}
