/**
 * @file Reads the log of one or several runs of nccl-tests programs (all_reduce_perf and its kin), or refuses it.
 *
 * Lines are told apart one by one (`nccl-lines.ts`); a run goes through its stages in order (version,
 * start, settings, ranks, table head, rows, footer, end), so a line of an earlier stage begins the next
 * run. Broken rows refuse the text. A log in which NCCL failed before any row is refused with NCCL's own
 * words; where other runs have rows, the failure stands in its run and in the warnings.
 */

import type {
  Failure,
  NcclParams,
  NcclRank,
  NcclRow,
  NcclRun,
  OutOfBounds,
  ParsedNcclTests,
} from "./nccl-run.ts";
import { emptiness, runWarnings } from "./nccl-checks.ts";
import { readLine, USUAL_COLUMNS, type Column, type NcclLine } from "./nccl-lines.ts";
import {
  firstProblems,
  quotedLine,
  refuse,
  type Problem,
  type Refused,
} from "../values/problem.ts";
import { cleanLines, refuseBySize } from "../values/text-lines.ts";

/** A longer line is no line of nccl-tests (its own buffer is 2,048 characters). */
const MAX_LINE_CHARS = 4096;

/** Stages of a run; lines of other kinds belong to its current stage. */
const STAGE_BY_KIND: ReadonlyMap<NcclLine["kind"], number> = new Map<NcclLine["kind"], number>([
  ["version", 0],
  ["starting", 1],
  ["params", 2],
  ["rank", 3],
  ["head", 4],
  ["row", 5],
  ["outOfBounds", 6],
  ["average", 6],
  ["concluded", 7],
]);
const BEFORE_START = -1;
const FOOTER = 6;
type StageLine = Exclude<
  NcclLine,
  { kind: "noise" | "elision" | "command" | "broken" | "unusable" | "failure" | "warning" }
>;
/** Kinds that a run prints once: the second one begins another run. */
const ONCE: ReadonlySet<NcclLine["kind"]> = new Set(["version", "starting", "params", "head"]);

interface OpenRun {
  readonly line: number;
  stage: number;
  op: string | undefined;
  params?: NcclParams;
  columns?: readonly Column[];
  readonly ranks: Map<number, NcclRank>;
  readonly rows: NcclRow[];
  readonly sizes: Set<string>;
  avgBusBwGBs?: number;
  outOfBounds?: OutOfBounds;
  isElided: boolean;
  failure?: Failure;
}

export interface NcclTextName {
  /** The name of the text: a file path, or the host that wrote it. */
  readonly source: string;
  /** The operation, where the text itself does not name its program (see `opOfName`). */
  readonly op?: string;
}

export function parseNcclTests(
  text: string,
  { source, op }: NcclTextName,
): ParsedNcclTests | Refused {
  const bySize = refuseBySize(text, source, { what: "the output of an nccl-tests program" });
  if (bySize !== undefined) return bySize;
  const reader = newReader();
  for (const [index, line] of cleanLines(text).entries()) {
    if (line.length <= MAX_LINE_CHARS) takeLine(reader, line, index + 1);
  }
  if (reader.problems.length > 0) return refuse(source, reader.problems);
  const runs = reader.runs.map((run) => closed(run, op ?? "unknown"));
  if (runs.every((run) => run.rows.length === 0)) return refuse(source, emptiness(runs));
  const warnings = [...reader.warnings, ...runs.flatMap(runWarnings)];
  return {
    kind: "parsed",
    // A failure before the first run (a missing library, a wrong path) is a warning, not a run.
    runs: runs.filter((_, index) => reader.runs[index]?.stage !== BEFORE_START),
    warnings: firstProblems(warnings),
  };
}

interface Reader {
  readonly runs: OpenRun[];
  readonly problems: Problem[];
  readonly warnings: Problem[];
  /** The program of a command line that no run has taken yet. */
  commandOp: string | undefined;
}

function newReader(): Reader {
  return { runs: [], problems: [], warnings: [], commandOp: undefined };
}

function takeLine(reader: Reader, text: string, line: number): void {
  const current = reader.runs.at(-1);
  const read = readLine(
    text,
    current !== undefined && current.stage < FOOTER ? current.columns : undefined,
  );
  switch (read.kind) {
    case "noise":
      return;
    case "elision":
      if (current !== undefined) current.isElided = true;
      return;
    case "command":
      reader.commandOp = read.op;
      return;
    case "broken":
      reader.problems.push({ line, message: read.message, remedy: read.remedy });
      return;
    case "unusable":
      reader.warnings.push({ line, message: read.message, remedy: "it was left out" });
      return;
    case "warning":
      reader.warnings.push({
        line,
        message: `NCCL warned: ${quotedLine(read.text)}`,
        remedy: "see whether the figures can be trusted",
      });
      return;
    case "failure":
      takeFailure(current ?? openRun(reader, line), { line, text: read.text }, reader.warnings);
      return;
    default:
      takeStage(runFor(reader, read.kind, line), read, line, reader);
  }
}

/** The run that a line belongs to: the current one, unless the line is of an earlier stage. */
function runFor(reader: Reader, kind: NcclLine["kind"], line: number): OpenRun {
  const stage = STAGE_BY_KIND.get(kind) ?? 0;
  const current = reader.runs.at(-1);
  const isNext =
    current === undefined ||
    stage < current.stage ||
    (stage === current.stage && ONCE.has(kind)) ||
    (current.failure !== undefined && stage <= 2);
  const run = isNext ? openRun(reader, line) : current;
  run.stage = stage;
  return run;
}

function openRun(reader: Reader, line: number): OpenRun {
  const run: OpenRun = {
    line,
    stage: BEFORE_START,
    op: reader.commandOp,
    ranks: new Map(),
    rows: [],
    sizes: new Set(),
    isElided: false,
  };
  reader.commandOp = undefined;
  reader.runs.push(run);
  return run;
}

function takeStage(
  run: OpenRun,
  read: StageLine,
  line: number,
  { problems, warnings }: Reader,
): void {
  switch (read.kind) {
    case "version":
      return;
    case "starting":
    case "concluded":
      run.op = read.op;
      return;
    case "params":
      run.params = read.params;
      return;
    case "rank":
      if (run.ranks.has(read.rank.rank)) {
        problems.push({
          line,
          message: `rank ${read.rank.rank} appears twice in one run`,
          remedy:
            "several processes each ran alone: build nccl-tests with MPI=1, or give one log per run",
        });
      }
      run.ranks.set(read.rank.rank, read.rank);
      return;
    case "head":
      run.columns = read.columns;
      return;
    case "row":
      takeRow(run, read.row, { line, warnings });
      return;
    case "outOfBounds":
      run.outOfBounds = read.outOfBounds;
      if (!read.outOfBounds.isOk) {
        warnings.push({
          line,
          message: `${read.outOfBounds.count} wrong values: the run FAILED its own check`,
          remedy: "do not trust this host's links or this NCCL build before the cause is known",
        });
      }
      return;
    case "average":
      run.avgBusBwGBs = read.gbs;
      if (run.failure === undefined) return;
      warnings.push({
        line: run.failure.line,
        message: `during the run: ${quotedLine(run.failure.text)}`,
        remedy: "the run went on to its footer all the same",
      });
      delete run.failure;
  }
}

function takeRow(
  run: OpenRun,
  row: NcclRow,
  { line, warnings }: { readonly line: number; readonly warnings: Problem[] },
): void {
  if (run.columns === undefined) {
    run.columns = USUAL_COLUMNS;
    warnings.push({
      line,
      message: "rows without a table head were read with the usual columns",
      remedy: "give the log with its lines that begin with #",
    });
  }
  // Small messages are rounded down to whole elements per rank, so size 0 may occur several times.
  const key = `${row.bytes} ${row.dtype} ${row.redop ?? ""} ${row.root ?? ""}`;
  if (row.bytes > 0 && run.sizes.has(key)) {
    warnings.push({
      line,
      message: `a second row of ${row.bytes} bytes in one run`,
      remedy: "if several logs are mixed, give one log per run",
    });
  }
  run.sizes.add(key);
  run.rows.push(row);
}

/** The first report is the cause; later reports, and those after a footer, repeat it. */
function takeFailure(run: OpenRun, failure: Failure, warnings: Problem[]): void {
  if (run.failure !== undefined) return;
  if (run.stage >= FOOTER) {
    const message = `after the run: ${quotedLine(failure.text)}`;
    warnings.push({ line: failure.line, message, remedy: "the figures above it are complete" });
    return;
  }
  run.failure = failure;
}

function closed(run: OpenRun, op: string): NcclRun {
  const { line, params, rows, avgBusBwGBs, outOfBounds, isElided, failure } = run;
  return {
    op: run.op ?? op,
    line,
    ...(params && { params }),
    ranks: [...run.ranks.values()].sort((a, b) => a.rank - b.rank),
    rows,
    ...(avgBusBwGBs !== undefined && { avgBusBwGBs }),
    ...(outOfBounds && { outOfBounds }),
    isElided,
    ...(failure && { failure }),
  };
}
