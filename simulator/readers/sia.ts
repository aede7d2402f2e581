/**
 * @file Workloads of Sia (SOSP '23) and Pollux: name, time, application, num_replicas, batch_size.
 *
 * Submitted at `time` (s), on `num_replicas` GPUs. There is no duration: GPU time comes from the application's class
 * (`gpu-time.ts`) and is divided by the GPUs; every such job is counted. All jobs are training. The tenant is `tenant` or `user` where a
 * file has it, else `sia`. `duration` (s), where a file has it, is taken as it is. The batch size is not read.
 */

import { shown } from "../../domain/values/file-problem.ts";
import { gpuHoursByApplication, SIA_CLASSES } from "./gpu-time.ts";
import { amount, plainWord, readTable, wholeGpus, type TableRow } from "./table.ts";
import { traceDraft, type JobsReader, type RowReading } from "./trace.ts";

const NEEDED = { time: ["time"], application: ["application"], gpus: ["num_replicas"] };
const OPTIONAL = { name: ["name"], tenant: ["tenant", "user"], duration: ["duration"] };
type Key = keyof typeof NEEDED | keyof typeof OPTIONAL;

const FILLED = "run times filled in from the application's class of GPU time";

export const readSia: JobsReader = (text, { source }) => {
  const table = readTable(text, source, { needed: NEEDED, optional: OPTIONAL });
  if (table.kind === "refused") return table;
  const draft = traceDraft(source, table.badRows);
  const hoursOf = gpuHoursByApplication(SIA_CLASSES);
  const readJob = ({ line, cell }: TableRow<Key>): RowReading => {
    const submittedS = amount(
      { line, cell: cell("time") },
      { what: "time", unit: "seconds from the trace's start" },
    );
    if (typeof submittedS !== "number") return submittedS;
    const gpus = wholeGpus(line, cell("gpus"));
    if (typeof gpus !== "number") return gpus;
    const durationS =
      cell("duration") === ""
        ? filledSeconds(cell("application"), gpus)
        : amount({ line, cell: cell("duration") }, { what: "duration", unit: "seconds" });
    if (durationS === undefined) {
      return {
        line,
        message: `the application is ${shown(cell("application"))}`,
        remedy: `write one of ${[...SIA_CLASSES.keys()].join(", ")}, or add a column duration`,
      };
    }
    if (typeof durationS !== "number") return durationS;
    return {
      line,
      submittedMs: submittedS * 1000,
      id: plainWord(cell("name"), `sia-line-${String(line)}`),
      durationMs: durationS * 1000,
      gpus,
      class: "training",
      tenant: plainWord(cell("tenant"), "sia"),
    };
  };
  const filledSeconds = (application: string, gpus: number): number | undefined => {
    const hours = hoursOf(application);
    if (hours === undefined) return undefined;
    draft.note(FILLED);
    return (hours * 3600) / gpus;
  };
  for (const row of table.rows) draft.add(readJob(row));
  return draft.done();
};
