/**
 * @file Reads the bandwidth that the processes of a run measured of their own collectives, from the file that ORBWEAVER_BANDWIDTH_FILE names.
 *
 * Two forms are read: the output of nccl-tests (the last run in it, at the message size nearest to 16 MiB), or lines with a number each,
 * GB/s of bus bandwidth, e.g. one an iteration; then it is the median of the last `LAST_LINES`. Only the end of a large file is read.
 * Its writer is a job, which may put anything in its place: a link, a pipe or a device is not read, and a text without a bandwidth counts
 * as no measurement. It lies in a folder of its own, so that its lines wake no watcher of the launch's folder.
 * Cost: a stat, and at most 256 KiB where the file has changed.
 */

import { join } from "node:path";
import { busBwNearGBs } from "../../domain/bandwidth/nccl-run.ts";
import { parseNcclTests } from "../../domain/bandwidth/parse-nccl-tests.ts";
import type { Files } from "../ports/files.ts";

export const BANDWIDTH_FILE_VARIABLE = "ORBWEAVER_BANDWIDTH_FILE";
export const bandwidthDir = (launchDir: string): string => join(launchDir, "measured");
export const bandwidthFile = (launchDir: string): string =>
  join(bandwidthDir(launchDir), "bandwidth.txt");

const MAX_BYTES = 256 * 1024;
const LAST_LINES = 5;
const MESSAGE_BYTES = 16 * 1024 * 1024;
/** More than any fabric on the market carries. */
const MAX_GBS = 1e5;
const NUMBER = /^\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?:GB\/s)?\s*$/;

/** GB/s; undefined when there is no file, or none that names a bandwidth. */
export function readBandwidth(files: Files, launchDir: string): number | undefined {
  const text = readEnd(files, bandwidthFile(launchDir));
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
export function readEnd(files: Files, file: string): string | undefined {
  let isCut = false;
  const bytes = files.readUntrusted(file, ({ sizeBytes }) => {
    isCut = sizeBytes > MAX_BYTES;
    return {
      position: Math.max(0, sizeBytes - MAX_BYTES),
      length: Math.min(sizeBytes, MAX_BYTES),
    };
  });
  const text = bytes?.toString("utf8");
  // The end of a line could be read as another number.
  return text !== undefined && isCut ? text.slice(text.indexOf("\n") + 1) : text;
}
