/**
 * @file Jobs of one's own as plain CSV: submit_time, duration, gpus, and where they are known class, tenant, name, estimate, min_gpus, priority.
 *
 * Times are seconds from any start, or wall times; `duration` and `estimate` are seconds. Usual other names of the columns are accepted
 * (`submission_time`, `arrival`, `num_gpu`, `num_gpus`, `job_id`, `user`, `vc`, …), so simple traces of others can be read as they are. Without a column
 * `class` a job is training, without a tenant it is of `default`. A row without GPUs, or of another class, is bad. Two published families
 * with the same columns have another unit: Muri's (a column `resource_time_0`) milliseconds, Chronus's (`expect_time_list`) minutes.
 */

import { shown } from "../../domain/values/file-problem.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { Problem } from "../../domain/values/problem.ts";
import { amount, headerOf, plainWord, readTable, wholeGpus, type TableRow } from "./table.ts";
import { traceDraft, type JobsReader, type RowReading } from "./trace.ts";
import { submitTime } from "./submit-time.ts";

export const PLAIN_COLUMNS = {
  submitted: [
    "submit_time",
    "submission_time",
    "submitted",
    "arrival",
    "arrival_time",
    "timestamp",
  ],
  duration: ["duration", "duration_s", "runtime"],
  gpus: ["gpus", "num_gpus", "num_gpu", "gpu_num"],
};
const OPTIONAL = {
  class: ["class"],
  tenant: ["tenant", "vc", "cluster", "user"],
  name: ["name", "job_id", "id"],
  estimate: ["estimate", "estimate_s", "time_limit"],
  minGpus: ["min_gpus"],
  priority: ["priority"],
};
type Key = keyof typeof PLAIN_COLUMNS | keyof typeof OPTIONAL;

interface TimeUnit {
  readonly name: string;
  readonly msPerUnit: number;
}

const UNIT_BY_COLUMN: ReadonlyMap<string, TimeUnit> = new Map([
  ["resource_time_0", { name: "milliseconds", msPerUnit: 1 }],
  ["expect_time_list", { name: "minutes", msPerUnit: 60_000 }],
]);
const SECONDS: TimeUnit = { name: "seconds", msPerUnit: 1000 };

function unitOf(text: string): TimeUnit {
  const header = headerOf(text);
  return [...UNIT_BY_COLUMN].find(([column]) => header.includes(column))?.[1] ?? SECONDS;
}

export const readPlain: JobsReader = (text, { source }) => {
  const table = readTable(text, source, { needed: PLAIN_COLUMNS, optional: OPTIONAL });
  if (table.kind === "refused") return table;
  const draft = traceDraft(source, table.badRows);
  const unit = unitOf(text);
  let isWallTime = true;
  const readJob = ({ line, cell }: TableRow<Key>): RowReading => {
    const submitted = submitTime({ line, cell: cell("submitted") }, unit);
    if ("message" in submitted) return submitted;
    isWallTime &&= submitted.isWallTime;
    const time = (key: Key, what: string): number | Problem =>
      amount({ line, cell: cell(key) }, { what, unit: unit.name });
    const duration = time("duration", "the duration");
    if (typeof duration !== "number") return duration;
    const gpus = wholeGpus(line, cell("gpus"));
    if (typeof gpus !== "number") return gpus;
    const estimate = cell("estimate") === "" ? 0 : time("estimate", "the estimate");
    if (typeof estimate !== "number") return estimate;
    const minGpus = cell("minGpus") === "" ? gpus : wholeGpus(line, cell("minGpus"));
    if (typeof minGpus !== "number") return minGpus;
    const priority =
      cell("priority") === ""
        ? 0
        : amount(
            { line, cell: cell("priority") },
            { what: "the priority", unit: "a number", least: -1000 },
          );
    if (typeof priority !== "number") return priority;
    const named = cell("class") === "" ? "training" : cell("class").toLowerCase();
    const jobClass = JOB_CLASSES.find((one) => one === named);
    if (jobClass === undefined) {
      const message = `the class is ${shown(cell("class"))}`;
      return { line, message, remedy: `write one of ${JOB_CLASSES.join(", ")}` };
    }
    draft.note(`times read as ${unit.name}`);
    return {
      line,
      submittedMs: submitted.ms,
      id: plainWord(cell("name"), `line-${String(line)}`),
      durationMs: duration * unit.msPerUnit,
      gpus,
      class: jobClass,
      tenant: plainWord(cell("tenant"), "default"),
      ...(estimate > 0 && { estimateMs: estimate * unit.msPerUnit }),
      ...(minGpus < gpus && { minGpus }),
      ...(priority !== 0 && { priority }),
    };
  };
  for (const row of table.rows) draft.add(readJob(row));
  return draft.done({ isWallTime });
};
