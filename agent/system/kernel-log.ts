/**
 * @file Reads what has come to the kernel log since the last read: records of `/dev/kmsg`, or lines of a file in the same form.
 *
 * A record begins with `priority,number,microseconds since boot,flags;`.
 */

import { closeSync, constants, openSync, readSync } from "node:fs";
import { hasErrorCode } from "../../lib/error-code.ts";

export interface KernelRecord {
  /** Undefined for a line without a time. */
  readonly sinceBootMs?: number;
  readonly text: string;
}

export interface KernelLog {
  read(): readonly KernelRecord[];
  close(): void;
}

export const KERNEL_LOG = "/dev/kmsg";
/** The kernel's own limit of a record. */
const RECORD_BYTES = 8_192;
/** One read ends some time, however fast the kernel writes. */
const MOST_RECORDS = 20_000;
const RECORD = /^\d+,\d+,(\d+),[^;]*;(.*)$/;

/** Undefined where it may not be opened. */
export function openKernelLog(file: string): KernelLog | undefined {
  let handle: number | undefined;
  let rest = "";
  try {
    handle = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  return {
    read: () => {
      if (handle === undefined) return [];
      let text = rest;
      for (let record = 0; record < MOST_RECORDS; record += 1) {
        const more = readOnce(handle);
        if (more === undefined) break;
        text += more;
      }
      const lines = text.split("\n");
      rest = lines.pop() ?? "";
      return lines.map(recordOf);
    },
    close: () => {
      if (handle !== undefined) closeSync(handle);
      handle = undefined;
    },
  };
}

/** Undefined where nothing more is there. */
function readOnce(handle: number): string | undefined {
  const buffer = Buffer.alloc(RECORD_BYTES);
  try {
    const length = readSync(handle, buffer, 0, RECORD_BYTES, null);
    return length === 0 ? undefined : buffer.toString("utf8", 0, length);
  } catch (error) {
    // The kernel has overwritten records that were not read: the next read has what is left.
    return hasErrorCode(error, "EPIPE") ? "" : undefined;
  }
}

function recordOf(line: string): KernelRecord {
  const [, microseconds, text] = RECORD.exec(line) ?? [];
  return microseconds === undefined || text === undefined
    ? { text: line }
    : { sinceBootMs: Number(microseconds) / 1_000, text };
}
