/**
 * @file What `nvidia-smi -q -x` says is broken about each GPU: memory errors, rows that wait to be remapped or cannot be, a slowdown that the hardware
 * forces, and the driver's own word that the GPU needs a reset or more.
 *
 * Corrected errors, errors of the past that a reset has ended (`aggregate`) and slowdowns by software or for power are no faults. What a
 * driver does not say counts as sound, so older drivers are judged by less. The order of the answer is the driver's.
 */

import { gpusIn, partOf, valueOf } from "./parse-device-query.ts";
import { plainBusId } from "./xid.ts";

export interface GpuCondition {
  readonly busId: string;
  readonly uuid?: string;
  /** What runs there is wrong or will end. None where it is sound. */
  readonly faults: readonly string[];
  /** What keeps new work away, and lets the work that runs there go on. */
  readonly limits: readonly string[];
  /** The same of what reaches beyond this GPU: power, NVLink, or a driver that asks for a reboot. */
  readonly beyond: readonly string[];
}

/** Undefined for a text that is no such answer. */
export function parseGpuFaults(xml: string): readonly GpuCondition[] | undefined {
  return gpusIn(xml)?.map(({ busId, gpu }) => ({
    busId: plainBusId(busId),
    ...idOf(valueOf(gpu, "uuid")),
    faults: [
      ...uncorrected(partOf(partOf(gpu, "ecc_errors"), "volatile")),
      ...failedRows(partOf(gpu, "remapped_rows")),
    ],
    limits: [
      ...pendingRows(partOf(gpu, "remapped_rows")),
      ...retirement(partOf(gpu, "retired_pages")),
      ...slowdown(gpu, "hw_thermal_slowdown"),
      ...recovery(gpu, true),
    ],
    beyond: [
      ...slowdown(gpu, "hw_power_brake_slowdown"),
      ...recovery(gpu, false),
      ...fabric(partOf(gpu, "fabric")),
    ],
  }));
}

const idOf = (uuid: string | undefined): Pick<GpuCondition, "uuid"> =>
  uuid === undefined ? {} : { uuid };

/** Behind NVSwitches no program can use a GPU that the fabric manager has not registered; elsewhere the driver says `N/A`. */
function fabric(said: string): readonly string[] {
  const [state, status] = [valueOf(said, "state"), valueOf(said, "status")];
  if (state === undefined) return [];
  if (state !== "Completed") return [`it is not in NVLink's fabric: ${state}`];
  return status === undefined || status === "Success" ? [] : [`NVLink's fabric: ${status}`];
}

/** By the names of old drivers and of new ones. */
const UNCORRECTED = [
  ...["dram_uncorrectable", "sram_uncorrectable"],
  ...["sram_uncorrectable_parity", "sram_uncorrectable_secded"],
];

/** Since the driver was loaded. */
function uncorrected(volatile: string): readonly string[] {
  const doubleBit = valueOf(partOf(volatile, "double_bit"), "total");
  const counts = [...UNCORRECTED.map((name) => valueOf(volatile, name)), doubleBit];
  const sum = counts.reduce((all, count) => all + (Number.parseInt(count ?? "", 10) || 0), 0);
  return sum === 0 ? [] : [`${sum} uncorrected ECC error${sum === 1 ? "" : "s"}`];
}

const failedRows = (rows: string): readonly string[] =>
  isYes(valueOf(rows, "remapped_row_failure")) ? ["a bad row could not be remapped"] : [];

const pendingRows = (rows: string): readonly string[] =>
  isYes(valueOf(rows, "remapped_row_pending")) ? ["a row waits for a reset to be remapped"] : [];

function retirement(pages: string): readonly string[] {
  const pending = valueOf(pages, "pending_retirement") ?? valueOf(pages, "pending_blacklist");
  return isYes(pending) ? ["a page waits for a reset to be retired"] : [];
}

/** Called `throttle` before release 535 of the driver, `event` since. */
function slowdown(gpu: string, name: string): readonly string[] {
  const isActive = ["clocks_event_reason", "clocks_throttle_reason"].some(
    (family) => valueOf(gpu, `${family}_${name}`) === "Active",
  );
  return isActive ? [name.replaceAll("_", " ").replace("hw", "hardware")] : [];
}

/** A reset, also one after a drain, is of one GPU; whatever else the driver asks for, a reboot for one, is of the machine. */
function recovery(gpu: string, isOfOneGpu: boolean): readonly string[] {
  const action = valueOf(gpu, "gpu_recovery_action");
  if (action === undefined || action === "None") return [];
  return /Reset$/.test(action) === isOfOneGpu ? [`the driver asks for: ${action}`] : [];
}

const isYes = (value: string | undefined): boolean => value === "Yes";
