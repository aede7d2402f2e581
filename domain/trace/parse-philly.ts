/**
 * @file Reads jobs of the Philly trace (Microsoft, 2017): timestamp, duration, num_gpus, gpu_time, cluster.
 *
 * A row that cannot be read is left out, counted and named; it never vanishes and never stops the others.
 * Times are wall times without a zone: they are taken as if they were UTC, so differences are right as long as
 * no clock change lies between. `gpu_time` is duration × num_gpus and is not read.
 */

import { cellReader, decimal, missingColumn, readCsv, type CsvRow } from "../values/csv.ts";
import { shown } from "../values/file-problem.ts";
import { refuse, type Problem, type Refused } from "../values/problem.ts";
import { refuseBySize } from "../values/text-lines.ts";
import { wallTimeMs } from "../values/wall-time.ts";

export interface PhillyRow {
  /** Number of the row in the whole trace, the first one after the header being 0. */
  readonly row: number;
  /** Milliseconds since 1970 as if the wall time were UTC. */
  readonly submittedMs: number;
  readonly durationMs: number;
  readonly gpus: number;
  /** The virtual cluster: the tenant. */
  readonly virtualCluster: string;
}

export interface PhillyTrace {
  readonly kind: "parsed";
  /** In file order. */
  readonly rows: readonly PhillyRow[];
  readonly badRows: readonly Problem[];
}

export interface PhillyTextName {
  readonly source: string;
  /** The number of the text's first row, for a cut-out of the trace; 0 when absent. */
  readonly firstRow?: number;
}

const COLUMNS = ["timestamp", "duration", "num_gpus", "cluster"] as const;
/** More GPUs than any job of the trace (128) by far. */
const MAX_GPUS = 100_000;

export function readPhillyTrace(
  text: string,
  { source, firstRow = 0 }: PhillyTextName,
): PhillyTrace | Refused {
  const bySize = refuseBySize(text, source, { what: "a Philly trace" });
  if (bySize !== undefined) return bySize;
  const csv = readCsv(text);
  const missing = missingColumn(csv, COLUMNS);
  if (missing !== undefined) return refuse(source, [missing]);
  const cell = cellReader(csv);
  const badRows = [...csv.badRows];
  // Bad rows keep their numbers, so that a row has the same number with and without them.
  const lines = [...csv.rows, ...csv.badRows].map(({ line }) => line).sort((a, b) => a - b);
  const numberByLine = new Map(lines.map((line, index) => [line, firstRow + index]));
  const rows: PhillyRow[] = [];
  for (const csvRow of csv.rows) {
    const read = readRow(csvRow, (name) => cell(csvRow, name), numberByLine.get(csvRow.line) ?? 0);
    if ("message" in read) badRows.push(read);
    else rows.push(read);
  }
  badRows.sort((a, b) => a.line - b.line);
  if (rows.length === 0) {
    const message = `none of ${badRows.length} rows can be read`;
    const remedy = "give timestamp,duration,num_gpus,gpu_time,cluster rows";
    return refuse(source, badRows.length > 0 ? badRows : [{ line: 1, message, remedy }]);
  }
  return { kind: "parsed", rows, badRows };
}

function readRow(
  { line }: CsvRow,
  cell: (name: (typeof COLUMNS)[number]) => string,
  row: number,
): PhillyRow | Problem {
  const submittedMs = wallTimeMs(cell("timestamp"));
  if (submittedMs === undefined) {
    const message = `row ${row} was submitted at ${shown(cell("timestamp"))}`;
    return { line, message, remedy: "write a real time as 2017-10-27 00:23:25" };
  }
  const durationS = decimal(cell("duration"));
  if (durationS === undefined || durationS < 0) {
    const message = `row ${row} has the duration ${shown(cell("duration"))}`;
    return { line, message, remedy: "write seconds, 0 or more" };
  }
  const gpus = decimal(cell("num_gpus"));
  if (gpus === undefined || !Number.isInteger(gpus) || gpus < 1 || gpus > MAX_GPUS) {
    const message = `row ${row} asks for ${shown(cell("num_gpus"))} GPUs`;
    return { line, message, remedy: `write a whole number from 1 to ${MAX_GPUS}` };
  }
  const virtualCluster = cell("cluster");
  if (!/^[\w.-]{1,64}$/.test(virtualCluster)) {
    const message = `row ${row} names the cluster ${shown(virtualCluster)}`;
    return { line, message, remedy: "write a name of letters, digits, points and dashes" };
  }
  return { row, submittedMs, durationMs: durationS * 1000, gpus, virtualCluster };
}
