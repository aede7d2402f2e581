/**
 * @file Jobs of the Helios traces (SenseTime, 2020), in the original form and in the form of the published two-VC slice.
 *
 * Submitted at `submit_time`: wall time in the original (`cluster_log.csv`), microseconds from the slice's start in the slice. Runs
 * `duration` / `duration_s` seconds on `gpu_num` / `num_chips` GPUs, however it ended (cancelled and failed jobs held their GPUs too). The
 * tenant is the virtual cluster `vc` / `tenant`. `class`, which only the slice has (always `finetune`), maps inference and serving to
 * inference, interactive, debug and notebook to interactive, all else to training. `walltime_limit_s` is a copy of the duration, not a
 * request, so it is no estimate. Jobs without a GPU are left out and counted. User, node counts and state are not read.
 */

import type { JobClass } from "../../domain/job/job.ts";
import { amount, plainWord, readTable, wholeGpus, type TableRow } from "./table.ts";
import { traceDraft, type JobsReader, type RowReading } from "./trace.ts";
import { submitTime } from "./submit-time.ts";

const NEEDED = {
  submitted: ["submit_time"],
  gpus: ["num_chips", "gpu_num", "num_gpus"],
  duration: ["duration_s", "duration"],
};
const OPTIONAL = { job: ["job_id"], tenant: ["tenant", "vc"], class: ["class"] };
type Key = keyof typeof NEEDED | keyof typeof OPTIONAL;

const CLASS_BY_NAME: ReadonlyMap<string, JobClass> = new Map([
  ["inference", "inference"],
  ["serving", "inference"],
  ["interactive", "interactive"],
  ["debug", "interactive"],
  ["notebook", "interactive"],
]);
const MICROSECONDS = { msPerUnit: 1e-3, name: "microseconds" };

export const readHelios: JobsReader = (text, { source }) => {
  const table = readTable(text, source, { needed: NEEDED, optional: OPTIONAL });
  if (table.kind === "refused") return table;
  const draft = traceDraft(source, table.badRows);
  let isWallTime = true;
  const readJob = ({ line, cell }: TableRow<Key>): RowReading => {
    const gpus = wholeGpus(line, cell("gpus"), 0);
    if (typeof gpus !== "number") return gpus;
    if (gpus === 0) return { leftOut: "jobs without a GPU" };
    const submitted = submitTime({ line, cell: cell("submitted") }, MICROSECONDS);
    if ("message" in submitted) return submitted;
    isWallTime &&= submitted.isWallTime;
    const durationS = amount(
      { line, cell: cell("duration") },
      { what: "the duration", unit: "seconds" },
    );
    if (typeof durationS !== "number") return durationS;
    return {
      line,
      submittedMs: submitted.ms,
      id: `helios-${plainWord(cell("job"), `line-${String(line)}`)}`,
      durationMs: durationS * 1000,
      gpus,
      class: CLASS_BY_NAME.get(cell("class").toLowerCase()) ?? "training",
      tenant: plainWord(cell("tenant"), "helios"),
    };
  };
  for (const row of table.rows) draft.add(readJob(row));
  return draft.done({ isWallTime });
};
