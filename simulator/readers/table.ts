/**
 * @file A trace with a header line, read by column names: order, further columns, case and old names of a column do not matter.
 *
 * A column is asked for by a list of names, of which the first that the header has is taken. A needed column that is
 * missing, or one that the header names twice, refuses the file: a guess between the two could be wrong.
 */

import { cleanLines, refuseBySize } from "../../domain/values/text-lines.ts";
import { decimal, readCsv } from "../../domain/values/csv.ts";
import { shown } from "../../domain/values/file-problem.ts";
import { refuse, type Problem, type Refused } from "../../domain/values/problem.ts";

/** By key: the names that the column may have. */
export type Columns<K extends string> = Readonly<Record<K, readonly string[]>>;

export interface Table<K extends string> {
  readonly kind: "table";
  readonly rows: readonly TableRow<K>[];
  /** Rows that could not be split into cells. */
  readonly badRows: readonly Problem[];
}

export interface TableRow<K extends string> {
  /** Counted from 1. */
  readonly line: number;
  /** The cell of a column; empty when the file lacks an optional one. */
  readonly cell: (key: K) => string;
}

/** A year of a large cluster; above it the text is not one trace. */
const MAX_TRACE_CHARS = 400 * 1024 * 1024;
/** More GPUs than any job of any trace asks for, by far. */
const MAX_GPUS = 100_000;

export function readTable<N extends string, O extends string = never>(
  text: string,
  source: string,
  columns: { readonly needed: Columns<N>; readonly optional?: Columns<O> },
): Table<N | O> | Refused {
  const bySize = tooLarge(text, source);
  if (bySize !== undefined) return bySize;
  const csv = readCsv(text);
  const header = csv.header.map(plainHeading);
  // The keys of the records are of `N | O`; Object.entries forgets it.
  const wanted = Object.entries({ ...columns.optional, ...columns.needed }) as [
    N | O,
    readonly string[],
  ][];
  const indexByKey = new Map<N | O, number>();
  const problems: Problem[] = [];
  for (const [key, names] of wanted) {
    const name = names.find((one) => header.includes(one));
    if (name === undefined) {
      if (key in columns.needed) problems.push(missing(names, csv.header));
    } else if (header.indexOf(name) !== header.lastIndexOf(name)) {
      problems.push({
        line: 1,
        message: `the header names ${name} twice`,
        remedy: "leave one column of each name",
      });
    } else {
      indexByKey.set(key, header.indexOf(name));
    }
  }
  if (problems.length > 0) return refuse(source, problems);
  const rows = csv.rows.map(({ line, cells }) => ({
    line,
    cell: (key: N | O) => cells[indexByKey.get(key) ?? -1] ?? "",
  }));
  return { kind: "table", rows, badRows: csv.badRows };
}

export const tooLarge = (text: string, source: string): Refused | undefined =>
  refuseBySize(text, source, { what: "a trace", maxChars: MAX_TRACE_CHARS });

/** The header's names as they are compared; empty when the text has no line that could be one. */
export function headerOf(text: string): readonly string[] {
  return readCsv(firstLine(text) ?? "").header.map(plainHeading);
}

/** The first line that is neither empty nor a comment. */
export function firstLine(text: string): string | undefined {
  // Some comment lines may come first; more than this is no trace.
  const start = text.slice(0, 64 * 1024);
  return cleanLines(start).find((line) => line.trim() !== "" && !line.startsWith("#"));
}

const plainHeading = (name: string): string => name.trim().toLowerCase();

function missing(names: readonly string[], header: readonly string[]): Problem {
  return {
    line: 1,
    message: `column ${names[0] ?? ""} is missing; the header is ${shown(header.join(","))}`,
    remedy: `name it ${names.join(" or ")}`,
  };
}

/** A cell's number or what is wrong with it. */
type CellReading = number | Problem;

/** A time or length of at least `least`, in the file's own unit. */
export function amount(
  { line, cell }: { readonly line: number; readonly cell: string },
  {
    what,
    unit,
    least = 0,
  }: { readonly what: string; readonly unit: string; readonly least?: number },
): CellReading {
  const value = decimal(cell);
  if (value !== undefined && Number.isFinite(value) && value >= least) return value;
  return {
    line,
    message: `${what} is ${cell === "" ? "empty" : shown(cell)}`,
    remedy: `write ${unit}, ${String(least)} or more`,
  };
}

/** A whole number of GPUs from 1 on; `7.0` is one too, as data frames write it. */
export function wholeGpus(line: number, cell: string, least = 1): CellReading {
  const value = decimal(cell);
  if (value !== undefined && Number.isInteger(value) && value >= least && value <= MAX_GPUS) {
    return value;
  }
  return {
    line,
    message: `the job asks for ${cell === "" ? "no number of" : shown(cell)} GPUs`,
    remedy: `write a whole number from ${String(least)} to ${String(MAX_GPUS)}`,
  };
}

/** A name from outside as an id may be: other characters become `-`, and nothing becomes `missing`. */
export function plainWord(text: string, missing: string): string {
  const word = text
    .trim()
    .replace(/[^\w.-]+/g, "-")
    .slice(0, 64);
  return /[A-Za-z0-9]/.test(word) ? word : missing;
}
