/**
 * @file Tasks of Alibaba's openb trace (2023): name, num_gpu, gpu_milli, gpu_spec, qos, creation_time, deletion_time, scheduled_time.
 *
 * Submitted at `creation_time` (s from the trace's start). Runs from `scheduled_time` to `deletion_time`; a task that was never
 * scheduled (empty) runs its whole lifetime, `creation_time` to `deletion_time`: how long it would have run is unknown. GPUs are `num_gpu`;
 * a share of one GPU (`gpu_milli` below 1000) rounds up to the whole GPU and is counted. `gpu_spec` "A|B": any of these types.
 * Class by `qos`: LS (latency-sensitive) is inference, Guaranteed and Burstable interactive, BE (best effort) and all else training.
 * One tenant, `openb`: the trace names no owner. CPU and memory are not read. Tasks without a GPU are left out and counted.
 */

import { decimal } from "../../domain/values/csv.ts";
import type { JobClass } from "../../domain/job/job.ts";
import type { Problem } from "../../domain/values/problem.ts";
import { amount, plainWord, readTable, wholeGpus, type TableRow } from "./table.ts";
import { traceDraft, type JobsReader, type RowReading } from "./trace.ts";

const NEEDED = {
  gpus: ["num_gpu", "num_gpus"],
  created: ["creation_time"],
  deleted: ["deletion_time"],
};
const OPTIONAL = {
  name: ["name"],
  share: ["gpu_milli"],
  types: ["gpu_spec"],
  qos: ["qos"],
  scheduled: ["scheduled_time"],
};
type Key = keyof typeof NEEDED | keyof typeof OPTIONAL;

const CLASS_BY_QOS: ReadonlyMap<string, JobClass> = new Map([
  ["LS", "inference"],
  ["Guaranteed", "interactive"],
  ["Burstable", "interactive"],
  ["BE", "training"],
]);

const NOTES = {
  share: "shares of a GPU, rounded up to one GPU",
  neverScheduled: "tasks that were never scheduled, run for their whole lifetime",
  qos: "tasks of an unknown qos, taken as training",
} as const;
const WITHOUT_GPU = "tasks without a GPU";
const UNIT = "seconds from the trace's start";

export const readOpenb: JobsReader = (text, { source }) => {
  const table = readTable(text, source, { needed: NEEDED, optional: OPTIONAL });
  if (table.kind === "refused") return table;
  const draft = traceDraft(source, table.badRows);
  for (const row of table.rows) draft.add(readTask(row, draft.note));
  return draft.done();
};

function readTask({ line, cell }: TableRow<Key>, note: (what: string) => void): RowReading {
  const gpus = wholeGpus(line, cell("gpus"), 0);
  if (typeof gpus !== "number") return gpus;
  if (gpus === 0) return { leftOut: WITHOUT_GPU };
  const time = (key: Key, what: string, least = 0): number | Problem =>
    amount({ line, cell: cell(key) }, { what, unit: UNIT, least });
  const createdS = time("created", "creation_time");
  if (typeof createdS !== "number") return createdS;
  const deletedS = time("deleted", "deletion_time", createdS);
  if (typeof deletedS !== "number") return deletedS;
  const wasScheduled = cell("scheduled") !== "";
  const startedS = wasScheduled ? time("scheduled", "scheduled_time", createdS) : createdS;
  if (typeof startedS !== "number") return startedS;
  if (startedS > deletedS) {
    const message = `it was scheduled at ${String(startedS)} and deleted at ${String(deletedS)}`;
    return { line, message, remedy: "a task ends after it begins" };
  }
  const milli = cell("share") === "" ? 1000 : decimal(cell("share"));
  if (milli === undefined || milli < 0) {
    const message = `gpu_milli is "${cell("share")}"`;
    return { line, message, remedy: "write thousandths of a GPU, 0 to 1000" };
  }
  const jobClass = CLASS_BY_QOS.get(cell("qos"));
  if (jobClass === undefined) note(NOTES.qos);
  if (!wasScheduled) note(NOTES.neverScheduled);
  if (gpus === 1 && milli < 1000) note(NOTES.share);
  const gpuTypes = cell("types")
    .split("|")
    .map((type) => type.trim())
    .filter((type) => type !== "");
  return {
    line,
    submittedMs: createdS * 1000,
    id: plainWord(cell("name"), `openb-line-${String(line)}`),
    durationMs: (deletedS - startedS) * 1000,
    gpus,
    class: jobClass ?? "training",
    tenant: "openb",
    ...(gpuTypes.length > 0 && { constraints: { gpuTypes } }),
  };
}
