/**
 * @file Reads the file in which the collectives plugin writes the times of steps; its form is in docs/collectives-plugin.md.
 *
 * Its writer is a job, which may put anything in its place: a link, a pipe, a torn or an endless file counts as no report.
 * Cost: a stat, and at most 512 KiB where the file has changed.
 */

import type { CollectiveReward } from "../../domain/bandwidth/collective-evidence.ts";
import { crc32Text } from "../../lib/crc32.ts";
import { isArm, isCollective } from "../../domain/bandwidth/collective-arm.ts";
import type { Files } from "../ports/files.ts";

const MAX_BYTES = 512 * 1024;
const MAGIC = "orbweaver-rewards 1\n";
const LINE =
  /^step (\d{1,15}) version (\d{1,15}) (\S{1,63}) (\S{1,20}) (\d{1,16}) (\d{1,16}) (\S{1,40}) calls (\d{1,9}) micros (\d{1,12})(?: slowest (\d{1,12}))?$/;

export interface SeenFile {
  readonly mtimeMs: number;
  readonly size: number;
}

/** Undefined when there is no whole file, or none that is newer than `seen`. */
export function readRewards(
  files: Files,
  file: string,
  seen: SeenFile | undefined,
): { readonly rewards: readonly CollectiveReward[]; readonly seen: SeenFile } | undefined {
  let found: SeenFile = { mtimeMs: 0, size: 0 };
  const bytes = files.readUntrusted(file, ({ sizeBytes: size, mtimeMs }) => {
    if (size > MAX_BYTES || (mtimeMs === seen?.mtimeMs && size === seen.size)) return undefined;
    found = { mtimeMs, size };
    return { position: 0, length: size };
  });
  const rewards = bytes && rewardsIn(bytes.toString("latin1"));
  return rewards && { rewards, seen: found };
}

/** Undefined for a text that is not whole; a line of another form is left out. */
export function rewardsIn(text: string): readonly CollectiveReward[] | undefined {
  const end = text.lastIndexOf("end ");
  if (!text.startsWith(MAGIC) || end < 0) return undefined;
  const body = text.slice(0, end);
  if (text.slice(end) !== `end ${crc32Text(body)}\n`) return undefined;
  return body
    .slice(MAGIC.length)
    .split("\n")
    .flatMap((line) => rewardIn(line) ?? []);
}

function rewardIn(line: string): CollectiveReward | undefined {
  const [, step, version, , collective = "", minBytes, maxBytes, arm = "", ...rest] =
    LINE.exec(line) ?? [];
  const [calls, micros, slowest] = rest;
  if (!isCollective(collective) || (arm !== "mixed" && !isArm(arm))) return undefined;
  return {
    step: Number(step),
    version: Number(version),
    collective,
    minBytes: Number(minBytes),
    maxBytes: Number(maxBytes),
    arm,
    calls: Number(calls),
    micros: Number(micros),
    ...(slowest !== undefined && { slowestMicros: Number(slowest) }),
  };
}
