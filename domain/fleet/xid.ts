/**
 * @file The faults that NVIDIA's driver writes to the kernel log, by number (Xid): of the hardware, of the application, or neither for certain.
 *
 * The numbers are those of NVIDIA's catalogue of Xid errors. A fault is the hardware's only where the catalogue names no other cause to look for
 * first: a wrong pointer in a program must not drain a host. Faults that rows are remapped for (63, 94) show in the driver's answer
 * as long as they matter (gpu-faults.ts).
 */

export type XidKind = "hardware" | "application" | "other";

export interface XidWord {
  /** As the kernel names the device: domain, bus and device in hexadecimal digits. */
  readonly busId: string;
  readonly xid: number;
  /** What the driver says beside the number, at most `MAX_TEXT` characters. */
  readonly text: string;
}

/**
 * Faults that reach beyond the GPU that reports them: an NVLink has two ends and may lead through a switch, and a GPU leaves the bus with its power, its
 * slot or its driver, after which the places of the others change.
 */
const BEYOND_ITS_GPU: ReadonlySet<number> = new Set([74, 79]);

const HARDWARE: ReadonlyMap<number, string> = new Map([
  [48, "double-bit ECC error"],
  [62, "the GPU's microcontroller halted"],
  [64, "a bad row could not be remapped"],
  [74, "NVLink error"],
  [79, "the GPU has fallen off the bus"],
  [95, "uncontained ECC error"],
  [119, "the GPU's system processor does not answer"],
  [120, "error of the GPU's system processor"],
  [140, "unrecovered ECC error"],
]);

const APPLICATION: ReadonlySet<number> = new Set([13, 31, 43, 45]);

const XID =
  /NVRM: Xid \(PCI:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})[^)]*\): (\d+)(?:, ?(.*))?$/;
const MAX_TEXT = 120;

/** Undefined for a line that tells of none. */
export function parseXid(line: string): XidWord | undefined {
  const [, busId, xid, text = ""] = XID.exec(line.trimEnd()) ?? [];
  if (busId === undefined || xid === undefined) return undefined;
  return { busId: plainBusId(busId), xid: Number(xid), text: text.trim().slice(0, MAX_TEXT) };
}

export const xidKind = (xid: number): XidKind =>
  HARDWARE.has(xid) ? "hardware" : APPLICATION.has(xid) ? "application" : "other";

/** Whether the other GPUs of the machine are sound. */
export const isOfOneGpu = (xid: number): boolean => !BEYOND_ITS_GPU.has(xid);

/** `Xid 79 (the GPU has fallen off the bus)`. */
export const xidText = (xid: number): string => {
  const meaning = HARDWARE.get(xid);
  return meaning === undefined ? `Xid ${xid}` : `Xid ${xid} (${meaning})`;
};

/** `0:3b:00` of `0000:3B:00` and of `00000000:3B:00.0`: kernel and driver write the same device in two ways. */
export function plainBusId(busId: string): string {
  const [domain = "", bus = "", device = ""] = busId
    .toLowerCase()
    .replace(/\.[0-9a-f]$/, "")
    .split(":");
  return `${domain.replace(/^0+(?=.)/, "")}:${bus}:${device}`;
}
