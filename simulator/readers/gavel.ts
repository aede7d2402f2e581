/**
 * @file Gavel's traces (OSDI '20): tab-separated without a header; Philly arrivals with synthetic job types.
 *
 * Seven columns: type, command, steps argument, needs a data folder, total steps, arrival (s), GPUs. Ten, as later versions write:
 * type, command, folder, steps argument, needs a data folder, total steps, GPUs, priority weight, SLO, arrival (s). The run time is
 * steps ÷ measured steps a second of that type on as many V100 (`gavel-throughput.ts`); jobs whose count was not measured are counted. All jobs
 * are training; one tenant, `gavel`. A job is called `gavel-N` by its line. Commands are text: they are neither run nor kept.
 */

import { decimal } from "../../domain/values/csv.ts";
import { shown } from "../../domain/values/file-problem.ts";
import { cleanLines } from "../../domain/values/text-lines.ts";
import { JOB_TYPES, throughputOf } from "./gavel-throughput.ts";
import { amount, firstLine, tooLarge, wholeGpus } from "./table.ts";
import { traceDraft, type JobsReader, type RowReading } from "./trace.ts";

/** Where the needed cells are, by the number of cells of a row. */
const PLACES: ReadonlyMap<
  number,
  { readonly steps: number; readonly arrival: number; readonly gpus: number }
> = new Map([
  [7, { steps: 4, arrival: 5, gpus: 6 }],
  [10, { steps: 5, arrival: 9, gpus: 6 }],
]);
const SCALED =
  "GPU counts that were not measured: steps a second in proportion to the next smaller count";

export const readGavel: JobsReader = (text, { source }) => {
  const bySize = tooLarge(text, source);
  if (bySize !== undefined) return bySize;
  const draft = traceDraft(source);
  for (const [index, line] of cleanLines(text).entries()) {
    if (line.trim() === "" || line.startsWith("#")) continue;
    draft.add(readJob(index + 1, line, draft.note));
  }
  return draft.done();
};

/** Whether the first line of a text could be a row of Gavel's. */
export function looksLikeGavel(text: string): boolean {
  const cells = firstLine(text)?.split("\t") ?? [];
  const place = PLACES.get(cells.length);
  return (
    place !== undefined &&
    [place.steps, place.arrival, place.gpus].every(
      (at) => decimal((cells[at] ?? "").trim()) !== undefined,
    )
  );
}

function readJob(line: number, text: string, note: (what: string) => void): RowReading {
  const cells = text.split("\t").map((cell) => cell.trim());
  const place = PLACES.get(cells.length);
  if (place === undefined) {
    const message = `the row has ${String(cells.length)} tab-separated cells`;
    return { line, message, remedy: `write ${[...PLACES.keys()].join(" or ")}` };
  }
  const gpus = wholeGpus(line, cells[place.gpus] ?? "");
  if (typeof gpus !== "number") return gpus;
  const arrivalS = amount(
    { line, cell: cells[place.arrival] ?? "" },
    { what: "the arrival", unit: "seconds from the trace's start" },
  );
  if (typeof arrivalS !== "number") return arrivalS;
  const steps = amount(
    { line, cell: cells[place.steps] ?? "" },
    { what: "the number of steps", unit: "training steps" },
  );
  if (typeof steps !== "number") return steps;
  const throughput = throughputOf(cells[0] ?? "", gpus);
  if (throughput === undefined) {
    return {
      line,
      message: `the job type ${shown(cells[0])} has no measured throughput`,
      remedy: `write one of ${JOB_TYPES.join(", ")}`,
    };
  }
  if (!throughput.isMeasured) note(SCALED);
  return {
    line,
    submittedMs: arrivalS * 1000,
    id: `gavel-${String(line)}`,
    durationMs: (steps / throughput.stepsPerSecond) * 1000,
    gpus,
    class: "training",
    tenant: "gavel",
  };
}
