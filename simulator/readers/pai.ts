/**
 * @file Workloads sampled from 24 h of Alibaba PAI (2020): name, time, category, application. Arrivals are real; GPU counts and durations are absent.
 *
 * Submitted at `time` (s). GPU time comes from the application's class (`gpu-time.ts`); the GPUs are the smallest power of two
 * on which it ends within a day, which is one GPU below 24 GPU-hours and at most 64; both are counted as filled in. Class by
 * `category`: BatchInferenceJob is inference, SyntheticSinglePhaseJob of a `…_short` application interactive, all else training. The
 * tenant is the category: the sample has no owners. `num_gpus` and `duration` (s), where a file has them, are taken as they are.
 */

import { shown } from "../../domain/values/file-problem.ts";
import type { JobClass } from "../../domain/job/job.ts";
import type { Problem } from "../../domain/values/problem.ts";
import { gpuHoursByApplication, PAI_CLASSES } from "./gpu-time.ts";
import { amount, plainWord, readTable, wholeGpus, type TableRow } from "./table.ts";
import { traceDraft, type JobsReader, type RowReading } from "./trace.ts";

const NEEDED = { time: ["time"], category: ["category"], application: ["application"] };
const OPTIONAL = { name: ["name"], gpus: ["num_gpus", "num_gpu"], duration: ["duration"] };
type Key = keyof typeof NEEDED | keyof typeof OPTIONAL;

const FILLED = {
  duration: "run times filled in from the application's class of GPU time",
  gpus: "GPU counts filled in: the smallest power of two that ends within a day",
} as const;
const HOURS_OF_A_DAY = 24;
const MOST_GPUS = 64;

export const readPai: JobsReader = (text, { source }) => {
  const table = readTable(text, source, { needed: NEEDED, optional: OPTIONAL });
  if (table.kind === "refused") return table;
  const draft = traceDraft(source, table.badRows);
  const hoursOf = gpuHoursByApplication(PAI_CLASSES);
  const readJob = ({ line, cell }: TableRow<Key>): RowReading => {
    const submittedS = amount(
      { line, cell: cell("time") },
      { what: "time", unit: "seconds from the trace's start" },
    );
    if (typeof submittedS !== "number") return submittedS;
    const size = sizeOf(line, cell);
    if ("message" in size) return size;
    return {
      line,
      submittedMs: submittedS * 1000,
      id: plainWord(cell("name"), `pai-line-${String(line)}`),
      ...size,
      class: classOf(cell("category"), cell("application")),
      tenant: plainWord(cell("category"), "pai"),
    };
  };
  const sizeOf = (
    line: number,
    cell: (key: Key) => string,
  ): { readonly gpus: number; readonly durationMs: number } | Problem => {
    const givenGpus = cell("gpus") === "" ? undefined : wholeGpus(line, cell("gpus"));
    if (givenGpus !== undefined && typeof givenGpus !== "number") return givenGpus;
    const givenS =
      cell("duration") === ""
        ? undefined
        : amount({ line, cell: cell("duration") }, { what: "duration", unit: "seconds" });
    if (givenS !== undefined && typeof givenS !== "number") return givenS;
    const hours = hoursOf(cell("application"));
    if (hours === undefined && (givenS === undefined || givenGpus === undefined)) {
      return {
        line,
        message: `the application is ${shown(cell("application"))}`,
        remedy: `write one of ${[...PAI_CLASSES.keys()].join(", ")}`,
      };
    }
    const gpus = givenGpus ?? gpusFor(hours ?? 0);
    if (givenGpus === undefined) draft.note(FILLED.gpus);
    if (givenS === undefined) draft.note(FILLED.duration);
    return { gpus, durationMs: (givenS ?? ((hours ?? 0) * 3600) / gpus) * 1000 };
  };
  for (const row of table.rows) draft.add(readJob(row));
  return draft.done();
};

function gpusFor(hours: number): number {
  let gpus = 1;
  while (hours / gpus > HOURS_OF_A_DAY && gpus < MOST_GPUS) gpus *= 2;
  return gpus;
}

function classOf(category: string, application: string): JobClass {
  if (category === "BatchInferenceJob") return "inference";
  return category === "SyntheticSinglePhaseJob" && application.endsWith("_short")
    ? "interactive"
    : "training";
}
