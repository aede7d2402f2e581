/**
 * @file What the processes of a run measured of their own collectives: the file that ORBWEAVER_BANDWIDTH_FILE names.
 *
 * Two forms are read: the output of nccl-tests (the last run in it, at the message size nearest to 16 MiB), or lines with a number each,
 * GB/s of bus bandwidth, e.g. one an iteration; then it is the median of the last `LAST_LINES`. Only the end of a large file is read.
 * Its writer is a job, which may put anything in its place: a link, a pipe or a device is not read, and what is no bandwidth says
 * nothing. It lies in a folder of its own, because whoever watches the launch's folder must not be woken by every line.
 * Cost: a stat, and at most 256 KiB where the file has changed.
 */

import { readSync } from "node:fs";
import { join } from "node:path";
import { busBwNearGBs } from "../../domain/nccl-run.ts";
import { parseNcclTests } from "../../domain/parse-nccl-tests.ts";
import { readPlainFile } from "./plain-file.ts";

export const BANDWIDTH_FILE_VARIABLE = "ORBWEAVER_BANDWIDTH_FILE";
export const bandwidthDir = (launchDir: string): string => join(launchDir, "measured");
export const bandwidthFile = (launchDir: string): string =>
  join(bandwidthDir(launchDir), "bandwidth.txt");

const MAX_BYTES = 256 * 1024;
const LAST_LINES = 5;
const MESSAGE_BYTES = 16 * 1024 * 1024;
/** Nothing that is sold carries more. */
const MAX_GBS = 1e5;
const NUMBER = /^\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?:GB\/s)?\s*$/;

/** GB/s; undefined when there is nothing, or nothing that says it. */
export function readBandwidth(launchDir: string): number | undefined {
  const text = readEnd(bandwidthFile(launchDir));
  return text === undefined ? undefined : bandwidthIn(text);
}

export function bandwidthIn(text: string): number | undefined {
  const figures = text.split("\n").flatMap((line) => {
    const gbs = Number(NUMBER.exec(line)?.[1] ?? NaN);
    return isBandwidth(gbs) ? [gbs] : [];
  });
  const last = figures.slice(-LAST_LINES).sort((a, b) => a - b);
  if (last.length > 0) return last[last.length >> 1];
  const parsed = parseNcclTests(text, { source: "measured" });
  if (parsed.kind === "refused") return undefined;
  const found = parsed.runs.flatMap((run) => busBwNearGBs(run, MESSAGE_BYTES) ?? []);
  return found.filter(isBandwidth).at(-1);
}

const isBandwidth = (gbs: number): boolean => gbs > 0 && gbs <= MAX_GBS;

/** The end of a file that a job writes; undefined of anything but a plain file. */
export const readEnd = (file: string): string | undefined =>
  readPlainFile(file, (handle, { size }) => {
    const bytes = Buffer.alloc(Math.min(size, MAX_BYTES));
    const count = readSync(handle, bytes, 0, bytes.length, Math.max(0, size - MAX_BYTES));
    const text = bytes.toString("utf8", 0, count);
    // A line of which only the end was read would say something else.
    return size > MAX_BYTES ? text.slice(text.indexOf("\n") + 1) : text;
  });
