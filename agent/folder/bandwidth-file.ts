/**
 * @file Reads the bandwidth that the processes of a run measured of their own collectives, from the file that ORBWEAVER_BANDWIDTH_FILE names.
 *
 * Two forms are read: the output of nccl-tests (the last run in it, at the message size nearest to 16 MiB), or lines with a number each,
 * GB/s of bus bandwidth, e.g. one an iteration, and behind it the size of the messages and the collective where these are not 16 MiB and
 * all_reduce; then it is the median of the last `LAST_LINES` of the last line's kind. Only the end of a large file is read.
 * Its writer is a job, which may put anything in its place: a link, a pipe or a device is not read, and a text without a bandwidth counts
 * as no measurement. It lies in a folder of its own, so that its lines wake no watcher of the launch's folder.
 * Cost: a stat, and at most 256 KiB where the file has changed.
 */

import { join } from "node:path";
import {
  areSameMessages,
  COLLECTIVES,
  roundMessages,
  USUAL_MESSAGES,
  type Collective,
  type MessageProfile,
} from "../../domain/bandwidth/message-profile.ts";
import { parseMessageSize } from "../../domain/values/dimensions.ts";
import { busBwNear } from "../../domain/bandwidth/nccl-run.ts";
import { parseNcclTests } from "../../domain/bandwidth/parse-nccl-tests.ts";
import type { Files } from "../ports/files.ts";

export const BANDWIDTH_FILE_VARIABLE = "ORBWEAVER_BANDWIDTH_FILE";
export const bandwidthDir = (launchDir: string): string => join(launchDir, "measured");
export const bandwidthFile = (launchDir: string): string =>
  join(bandwidthDir(launchDir), "bandwidth.txt");

const MAX_BYTES = 256 * 1024;
const LAST_LINES = 5;
/** Characters. A longer line is no figure: matched, one of blanks alone would hold the agent for minutes. */
const LONGEST_FIGURE = 100;
/** More than any fabric on the market carries. */
const MAX_GBS = 1e5;
const FIGURE =
  /^\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?:GB\/s)?(?:\s+(\d+(?:\.\d+)?\s*[KMG]iB)(?:\s+(\w+))?)?\s*$/;

export interface MeasuredFigure {
  /** Bus bandwidth. */
  readonly gbs: number;
  /** Absent of `USUAL_MESSAGES`. */
  readonly messages?: MessageProfile;
}

/** Undefined when there is no file, or none that names a bandwidth. */
export function readBandwidth(files: Files, launchDir: string): MeasuredFigure | undefined {
  const text = readEnd(files, bandwidthFile(launchDir));
  return text === undefined ? undefined : bandwidthIn(text);
}

export function bandwidthIn(text: string): MeasuredFigure | undefined {
  const figures = text.split("\n").flatMap((line) => figureIn(line) ?? []);
  const newest = figures.at(-1);
  if (newest !== undefined) {
    const alike = figures.filter(({ messages }) => areSameMessages(messages, newest.messages));
    const last = alike
      .slice(-LAST_LINES)
      .map(({ gbs }) => gbs)
      .sort((a, b) => a - b);
    return figureOf(last[last.length >> 1] ?? newest.gbs, newest.messages);
  }
  const parsed = parseNcclTests(text, { source: "measured" });
  if (parsed.kind === "refused") return undefined;
  const found = parsed.runs.flatMap((run) => {
    const near = busBwNear(run, USUAL_MESSAGES.bytes);
    if (near === undefined || !isBandwidth(near.gbs)) return [];
    const collective = collectiveOf(run.op) ?? USUAL_MESSAGES.collective;
    return [figureOf(near.gbs, roundMessages({ collective, bytes: near.bytes }))];
  });
  return found.at(-1);
}

type OwnFigure = Required<MeasuredFigure>;

function figureIn(line: string): OwnFigure | undefined {
  if (line.length > LONGEST_FIGURE) return undefined;
  const [, number, size, name = USUAL_MESSAGES.collective] = FIGURE.exec(line) ?? [];
  const gbs = Number(number ?? NaN);
  const collective = collectiveOf(name);
  if (!isBandwidth(gbs) || collective === undefined) return undefined;
  if (size === undefined) return { gbs, messages: USUAL_MESSAGES };
  const bytes = parseMessageSize(size);
  return bytes.kind === "read" && bytes.value > 0
    ? { gbs, messages: roundMessages({ collective, bytes: bytes.value }) }
    : undefined;
}

const figureOf = (gbs: number, messages: MessageProfile): MeasuredFigure =>
  areSameMessages(messages, USUAL_MESSAGES) ? { gbs } : { gbs, messages };

const collectiveOf = (name: string): Collective | undefined =>
  COLLECTIVES.find((each) => each === name);

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
