/**
 * @file Reads a trace of any known format: of the one that is named, or of the one that its first line shows.
 *
 * A format is recognised by the columns that only it has; order and further columns do not matter. The most particular ones are looked
 * for first, plain CSV last. A text that is none of them, a list of machines, or load instead of jobs is refused with what it seems to be.
 */

import { shown } from "../../domain/values/file-problem.ts";
import { refuse, type Refused } from "../../domain/values/problem.ts";
import { looksLikeGavel, readGavel } from "./gavel.ts";
import { readHelios } from "./helios.ts";
import { readHeliosLoad } from "./helios-load.ts";
import { looksLikeNodes } from "./nodes.ts";
import { readOpenb } from "./openb.ts";
import { readPai } from "./pai.ts";
import { readPhilly } from "./philly.ts";
import { PLAIN_COLUMNS, readPlain } from "./plain.ts";
import { readSia } from "./sia.ts";
import { firstLine, headerOf, tooLarge } from "./table.ts";
import type { JobsReader, TraceJobs, TraceLoad, TraceName } from "./trace.ts";

export const TRACE_FORMATS = [
  "philly",
  "openb",
  "helios",
  "helios-load",
  "sia",
  "gavel",
  "pai",
  "csv",
] as const;
export type TraceFormat = (typeof TRACE_FORMATS)[number];

/** A column by any one of its names. */
type Mark = readonly string[];
type HeadedFormat = Exclude<TraceFormat, "gavel">;

/** In the order in which they are looked for. */
const MARKS: readonly (readonly [HeadedFormat, readonly Mark[]])[] = [
  ["openb", [["num_gpu", "num_gpus"], ["creation_time"], ["deletion_time"]]],
  ["helios-load", [["time"], ["running_gpu_num"], ["pending_gpu_num"]]],
  [
    "helios",
    [["submit_time"], ["num_chips", "gpu_num"], ["duration_s", "duration"], ["tenant", "vc"]],
  ],
  ["pai", [["time"], ["category"], ["application"]]],
  ["sia", [["time"], ["application"], ["num_replicas"]]],
  ["philly", [["timestamp"], ["duration"], ["num_gpus"], ["cluster"]]],
  ["csv", Object.values(PLAIN_COLUMNS)],
];

const READERS: Readonly<Record<Exclude<TraceFormat, "helios-load">, JobsReader>> = {
  philly: readPhilly,
  openb: readOpenb,
  helios: readHelios,
  sia: readSia,
  gavel: readGavel,
  pai: readPai,
  csv: readPlain,
};

export type TraceReading = (TraceJobs & { readonly format: TraceFormat }) | TraceLoad | Refused;

export interface TraceOptions extends TraceName {
  /** As the first line shows, when absent. */
  readonly format?: TraceFormat;
}

export function readTrace(text: string, { source, format }: TraceOptions): TraceReading {
  const bySize = tooLarge(text, source);
  if (bySize !== undefined) return bySize;
  const found = format ?? traceFormatOf(text);
  if (found === undefined) return unknownFormat(text, source);
  if (found === "helios-load") return readHeliosLoad(text, { source });
  const read = READERS[found](text, { source });
  return read.kind === "jobs" ? { ...read, format: found } : read;
}

/** `undefined` when the first line shows none. */
export function traceFormatOf(text: string): TraceFormat | undefined {
  if (looksLikeGavel(text)) return "gavel";
  const header = headerOf(text);
  return MARKS.find(([, marks]) =>
    marks.every((names) => names.some((name) => header.includes(name))),
  )?.[0];
}

function unknownFormat(text: string, source: string): Refused {
  if (looksLikeNodes(text)) {
    const message = "this is a list of machines, not of jobs";
    return refuse(source, [{ line: 1, message, remedy: "give it with --fleet, and a trace here" }]);
  }
  return refuse(source, [
    {
      line: 1,
      message: `the first line ${shown(firstLine(text) ?? "")} is that of no known trace`,
      remedy: `name the columns of one of ${TRACE_FORMATS.join(", ")}, e.g. submit_time,duration,gpus,class,tenant`,
    },
  ]);
}
