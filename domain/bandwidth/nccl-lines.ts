/**
 * @file Classifies one line of an nccl-tests log: a setting, a rank, a table heading, a row, a footer, a failure, or noise.
 *
 * Launchers add a prefix to each line ("0: ", "[1,0]<stdout>:", "[STAT]:", a time, a host), documentation
 * drops the leading "#", and versions differ in their columns. So nothing is anchored to the start of a
 * line: each kind is known by its words, and a row by two whole numbers and a data type. Columns are read
 * by the table head above them.
 */

import { shown } from "../values/file-problem.ts";
import type { NcclFigures, NcclParams, NcclRank, NcclRow, OutOfBounds } from "./nccl-run.ts";

export type NcclLine =
  | { readonly kind: "version" }
  | { readonly kind: "command"; readonly op: string }
  | { readonly kind: "starting" | "concluded"; readonly op: string }
  | { readonly kind: "params"; readonly params: NcclParams }
  | { readonly kind: "rank"; readonly rank: NcclRank }
  | { readonly kind: "head"; readonly columns: readonly Column[] }
  | { readonly kind: "row"; readonly row: NcclRow }
  | { readonly kind: "outOfBounds"; readonly outOfBounds: OutOfBounds }
  | { readonly kind: "average"; readonly gbs: number }
  | { readonly kind: "failure" | "warning"; readonly text: string }
  /** A figure that is not a number (`nan`): the run continues without it. */
  | { readonly kind: "unusable"; readonly message: string }
  | { readonly kind: "broken"; readonly message: string; readonly remedy: string }
  | { readonly kind: "elision" }
  | { readonly kind: "noise" };

/** Columns after the data type. A `timestamp` is a date and a time: two cells; `other` is counted and not read. */
export type Column = "redop" | "root" | Figure | "timestamp" | "other";
type Figure = "time" | "algbw" | "busbw" | "wrong";

/** The columns that every version since 2.0 prints; used for rows without a table heading. */
export const USUAL_COLUMNS: readonly Column[] = [
  ...(["redop", "root"] as const),
  ...(["time", "algbw", "busbw", "wrong"] as const),
  ...(["time", "algbw", "busbw", "wrong"] as const),
];

const COLUMN_BY_WORD: ReadonlyMap<string, Column> = new Map<string, Column>([
  ["redop", "redop"],
  ["root", "root"],
  ["time", "time"],
  ["cputime", "time"],
  ["algbw", "algbw"],
  ["busbw", "busbw"],
  ["wrong", "wrong"],
  ["#wrong", "wrong"],
  ["error", "wrong"],
  ["timestamp", "timestamp"],
]);

const DTYPE =
  "u?int(?:8|32|64)|u?char|half|float(?:16|32|64)?|fp(?:16|32|64)|double|bfloat16|bf16|f(?:p)?8_?e[45]m[23]\\w*";
const BEFORE = "(?:^|[\\s:>\\])|])";
const ROW = new RegExp(`${BEFORE}(\\d+)\\s+(\\d+)\\s+(${DTYPE})(?:\\s+(.*))?$`, "i");
/** A row by its shape, with a data type that is not known. */
const ODD_ROW = new RegExp(
  `${BEFORE}\\d+\\s+\\d+\\s+(\\S+)\\s+(?:sum|prod|min|max|avg|mulsum|none)\\s`,
);
/** A row that was cut after its first or second number. */
const CUT_ROW = /^\s*(?:\[[^\]]*\](?:<\w+>)?:?|\d+:|[\w.-]+:)?\s*\d+(?:\s+\d+)?\s*$/;
const HEAD = /\bsize\s+count\s+type\s+(.*\bbusbw\b.*)$/;
const RANK =
  /\bRank\s+(\d+)(?:\s+Group\s+(\d+))?(?:\s+Pid\s+(\d+))?\s+on\s+(\S+)\s+device\s+(\d+)\s*(?:\[([^\]]*)\])?\s*(.*)$/;
const COMMAND = /(?:^|[\s/])(\w+)_perf(?:_mpi)?\s+--?\w/;
const ELISION =
  /^\s*(?:\S+:\s*|\[[^\]]*\](?:<\w+>)?:?\s*)?(?:\.{3,}|…|\[(?:\.{3}|…|snip)\]|<snip>)\s*$/;
/** Reports after which a run has no further rows. */
const FAILURES: readonly RegExp[] = [
  /Test (?:NCCL|CUDA|RCCL|HIP) failure/,
  /\bTest failure \S+:\d+/,
  /\bnccl(?:UnhandledCuda|System|Internal|Remote)Error\b|\bncclInvalid(?:Usage|Argument)\b/,
  /unhandled (?:cuda|system) error/i,
  /error while loading shared libraries/,
  /(?:command not found|: No such file or directory)\s*$/,
  /\b(?:mpirun|mpiexec|prterun|orterun)\b.*(?:noticed|non-zero|exited on signal|detected)/,
  /\bsrun: error:|\bslurmstepd: error:|DUE TO TIME LIMIT/,
  /Segmentation fault|core dumped|CUDA error|out of memory/i,
  /^Invalid number of GPUs\b|# error: \S/,
];

/** Reads one line; `columns` are those of the table head above it, if the run has had one. */
export function readLine(line: string, columns: readonly Column[] | undefined): NcclLine {
  const rank = RANK.exec(line);
  if (rank !== null) return rankLine(rank);
  const head = HEAD.exec(line)?.[1];
  if (head !== undefined) return headLine(head);
  const row = ROW.exec(line);
  if (row !== null) return rowLine(row, columns ?? USUAL_COLUMNS);
  const op = /Collective test (starting|concluded):\s*(\w+)/.exec(line);
  if (op !== null) {
    return { kind: op[1] === "starting" ? "starting" : "concluded", op: withoutPerf(op[2]) };
  }
  if (/\b[nr]ccl-tests version\b/i.test(line)) return { kind: "version" };
  if (/\bnThread\s+\d+\s+nGpus\s+\d+/.test(line)) return paramsLine(line);
  const bounds = /Out of bounds values\s*:\s*(\d+)\s*(\w*)/.exec(line);
  if (bounds !== null) {
    const count = Number(bounds[1]);
    const isOk = bounds[2] === "" ? count === 0 : bounds[2] === "OK";
    return { kind: "outOfBounds", outOfBounds: { count, isOk } };
  }
  const average = /Avg bus bandwidth\s*:\s*(\S+)/.exec(line)?.[1];
  if (average !== undefined) return averageLine(average);
  if (FAILURES.some((pattern) => pattern.test(line))) return { kind: "failure", text: line.trim() };
  if (/\bNCCL WARN\b/.test(line)) return { kind: "warning", text: line.trim() };
  const command = COMMAND.exec(line)?.[1];
  if (command !== undefined) return { kind: "command", op: command };
  if (ELISION.test(line)) return { kind: "elision" };
  if (columns !== undefined) {
    const dtype = ODD_ROW.exec(line)?.[1];
    if (dtype !== undefined) {
      return broken(
        `a row has the data type ${shown(dtype)}`,
        "types are float, half, bfloat16, int8, …",
      );
    }
    if (CUT_ROW.test(line)) return broken("a row is cut off", CUT_REMEDY);
  }
  return { kind: "noise" };
}

const CUT_REMEDY = "copy the log again, or delete the line if the run was cut off there";

function broken(message: string, remedy: string): NcclLine {
  return { kind: "broken", message, remedy };
}

function rankLine(match: RegExpExecArray): NcclLine {
  const [, rank, group, pid, host = "", device, busId, name = ""] = match;
  return {
    kind: "rank",
    rank: {
      rank: Number(rank),
      ...(group !== undefined && { group: Number(group) }),
      ...(pid !== undefined && { pid: Number(pid) }),
      host,
      device: Number(device),
      ...(busId !== undefined && { busId }),
      name: name.trim(),
    },
  };
}

/** Newer versions and forks add columns (`i_min`, `#bitdiff`, …): they are kept as places to skip. */
function headLine(words: string): NcclLine {
  const columns = words
    .trim()
    .split(/\s+/)
    .map((word): Column => COLUMN_BY_WORD.get(word.toLowerCase()) ?? "other");
  const missing = (["time", "algbw", "busbw"] as const).find((name) => !columns.includes(name));
  if (missing === undefined) return { kind: "head", columns };
  return broken(`the table head has no column ${missing}`, CUT_REMEDY);
}

function paramsLine(line: string): NcclLine {
  const number = (name: string): number | undefined => {
    const value = new RegExp(`(?:^|\\s)${name}:?\\s+(-?\\d+)`).exec(line)?.[1];
    return value === undefined ? undefined : Number(value);
  };
  const [, by, stepKind] = /\bstep:\s*(\d+)\s*\((factor|bytes)\)/.exec(line) ?? [];
  const required = [number("nThread"), number("nGpus"), number("minBytes"), number("maxBytes")];
  const [threads, gpusPerThread, minBytes, maxBytes] = required;
  if (
    threads === undefined ||
    gpusPerThread === undefined ||
    minBytes === undefined ||
    maxBytes === undefined ||
    by === undefined
  ) {
    return broken("the line of settings (nThread …) is cut off", CUT_REMEDY);
  }
  const warmupIterations = number("warmup iters");
  const iterations = /(?<!warmup |agg )iters:\s*(\d+)/.exec(line)?.[1];
  const aggregatedIterations = number("agg iters");
  const validation = number("validation");
  const graphLaunches = number("graph");
  return {
    kind: "params",
    params: {
      threads,
      gpusPerThread,
      minBytes,
      maxBytes,
      step: { kind: stepKind === "factor" ? "factor" : "bytes", by: Number(by) },
      ...(warmupIterations !== undefined && { warmupIterations }),
      ...(iterations !== undefined && { iterations: Number(iterations) }),
      ...(aggregatedIterations !== undefined && { aggregatedIterations }),
      ...(validation !== undefined && { isValidated: validation !== 0 }),
      ...(graphLaunches !== undefined && { graphLaunches }),
    },
  };
}

function averageLine(text: string): NcclLine {
  const gbs = figure(text);
  if (typeof gbs === "number") return { kind: "average", gbs };
  return { kind: "unusable", message: `the average bus bandwidth is ${shown(text)}` };
}

function rowLine(match: RegExpExecArray, columns: readonly Column[]): NcclLine {
  const [, bytes = "", count, dtype = "", rest = ""] = match;
  const needed = columns.reduce((sum, column) => sum + (column === "timestamp" ? 2 : 1), 0);
  const cells = withBlankBody(rest, columns, needed);
  if (cells.length !== needed) {
    const message = `the row of ${bytes} bytes has ${cells.length + 3} cells and needs ${needed + 3}`;
    return broken(message, CUT_REMEDY);
  }
  const byColumn = new Map<Column, string[]>();
  let at = 0;
  for (const column of columns) {
    byColumn.set(column, [...(byColumn.get(column) ?? []), cells[at] ?? ""]);
    at += column === "timestamp" ? 2 : 1;
  }
  const placements = [0, 1].map((place) => placement(byColumn, place));
  const wrongCell = placements.find((found) => typeof found === "string");
  if (typeof wrongCell === "string") {
    const message = `the row of ${bytes} bytes has ${shown(wrongCell)} where a number belongs`;
    return /^[-+]?(nan|inf)/i.test(wrongCell)
      ? { kind: "unusable", message }
      : broken(message, "copy the log again; the columns are those of the table head");
  }
  const [outOfPlace, inPlace] = placements;
  if (typeof outOfPlace !== "object" && typeof inPlace !== "object") {
    return { kind: "unusable", message: `the row of ${bytes} bytes has no figures` };
  }
  const redop = byColumn.get("redop")?.[0];
  if (redop !== undefined && !/^\w+$/.test(redop)) {
    return broken(`the row of ${bytes} bytes has the reduction ${shown(redop)}`, CUT_REMEDY);
  }
  const root = Number(byColumn.get("root")?.[0] ?? -1);
  return {
    kind: "row",
    row: {
      bytes: Number(bytes),
      count: Number(count),
      dtype,
      ...(redop !== undefined && redop !== "none" && { redop }),
      ...(root >= 0 && { root }),
      ...(typeof outOfPlace === "object" && { outOfPlace }),
      ...(typeof inPlace === "object" && { inPlace }),
    },
  };
}

/** When only the in-place run was made, its figures follow a gap of more than 30 spaces. */
function withBlankBody(rest: string, columns: readonly Column[], needed: number): string[] {
  const cells = rest.trim() === "" ? [] : rest.trim().split(/\s+/);
  const first = columns.indexOf("time");
  const second = columns.indexOf("time", first + 1);
  const isBlank = second !== -1 && cells.length === needed - (second - first) && / {30}/.test(rest);
  if (!isBlank) return cells;
  return [
    ...cells.slice(0, first),
    ...Array<string>(second - first).fill("N/A"),
    ...cells.slice(first),
  ];
}

/** The figures out of place (0) or in place (1); `undefined` where not run; the cell that is no number. */
function placement(
  byColumn: ReadonlyMap<Column, readonly string[]>,
  place: number,
): NcclFigures | string | undefined {
  const cell = (column: Figure): string => byColumn.get(column)?.[place] ?? "N/A";
  const timeUs = figure(cell("time"));
  const algbwGBs = figure(cell("algbw"));
  const busbwGBs = figure(cell("busbw"));
  const wrong = figure(cell("wrong"));
  if (timeUs === undefined) return undefined;
  if (typeof timeUs === "string") return timeUs;
  if (typeof algbwGBs !== "number") return algbwGBs ?? "N/A";
  if (typeof busbwGBs !== "number") return busbwGBs ?? "N/A";
  if (typeof wrong === "string") return wrong;
  return { timeUs, algbwGBs, busbwGBs, ...(wrong !== undefined && { wrong }) };
}

/** A figure; `undefined` for `N/A`; the text itself where it is neither. An asterisk marks a bad error. */
function figure(text: string): number | string | undefined {
  if (text === "N/A") return undefined;
  return /^\d+(?:\.\d*)?(?:e[+-]?\d+)?\*?$/i.test(text) ? Number.parseFloat(text) : text;
}

function withoutPerf(program: string | undefined): string {
  return (program ?? "unknown").replace(/_perf(?:_mpi)?$/, "");
}
