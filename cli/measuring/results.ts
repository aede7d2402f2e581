/**
 * @file The results of measuring a cluster, kept beside the fleet's state: every reading at once, and the tables made of them.
 *
 * `<state>/measured/<cluster>.log` has a line for each reading, appended and synced one by one; the value of a set is the
 * median of its readings. `<cluster>.jobs.json` names the measuring jobs whose readings have not all been collected, so that a
 * later command continues with them.
 */

import {
  appendFileSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import {
  MAX_TABLE_GPUS,
  type BandwidthTable,
  type IntraHostTable,
} from "../../domain/bandwidth/bandwidth-table.ts";
import {
  areSameMessages,
  USUAL_MESSAGES,
  type MessageProfile,
} from "../../domain/bandwidth/message-profile.ts";
import type { HostShape } from "../../domain/fleet/fleet.ts";
import { byCodeUnit } from "../../domain/values/ids.ts";
import {
  parseReadingLine,
  readingLine,
  sharesKey,
  type HostShares,
  type MeasuredReading,
} from "../../domain/bandwidth/measuring.ts";
import { median } from "../../lib/median.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { membersOf } from "../../lib/bits.ts";

export interface Results {
  readonly dir: string;
  readonly readings: readonly MeasuredReading[];
  /** False when the reading was known. It is on disk when this returns. */
  readonly add: (reading: MeasuredReading) => boolean;
  readonly openJobs: () => readonly string[];
  readonly setOpenJobs: (jobs: readonly string[]) => void;
  readonly close: () => void;
}

export function openResults(stateDir: string, cluster: string): Results {
  const dir = join(stateDir, "measured");
  mkdirSync(dir, { recursive: true });
  const path = join(dir, `${cluster}.log`);
  const jobsPath = join(dir, `${cluster}.jobs.json`);
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  if (text !== "" && !text.endsWith("\n")) appendFileSync(path, "\n");
  const readings = text.split("\n").flatMap((line) => parseReadingLine(line) ?? []);
  const seen = new Set(readings.map(readingKey));
  const file = openSync(path, "a");
  return {
    dir,
    readings,
    add(reading) {
      const key = readingKey(reading);
      if (seen.has(key)) return false;
      writeSync(file, `${readingLine(reading)}\n`);
      fsyncSync(file);
      seen.add(key);
      readings.push(reading);
      return true;
    },
    openJobs: () => (existsSync(jobsPath) ? namesIn(readFileSync(jobsPath, "utf8")) : []),
    setOpenJobs(jobs) {
      writeFileSync(`${jobsPath}.tmp`, `${JSON.stringify(jobs)}\n`);
      renameSync(`${jobsPath}.tmp`, jobsPath);
    },
    close: () => {
      closeSync(file);
    },
  };
}

/** Counts a reading once, however often a job has reported it. */
const readingKey = ({ shares, atMs }: MeasuredReading): string =>
  `${sharesKey(shares)} ${String(atMs)}`;

function namesIn(text: string): readonly string[] {
  const value: unknown = JSON.parse(text);
  return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
}

/** Those of these messages; the usual ones have none named. */
export const readingsOf = (
  { readings }: Pick<Results, "readings">,
  messages: MessageProfile = USUAL_MESSAGES,
): readonly MeasuredReading[] =>
  readings.filter((reading) => areSameMessages(reading.messages ?? USUAL_MESSAGES, messages));

export interface MeasuredSetOf {
  readonly shares: HostShares;
  /** Every reading, in order. */
  readonly gbs: readonly number[];
}

/** Each set once, with the readings that have a figure. */
export function measuredSets(readings: readonly MeasuredReading[]): readonly MeasuredSetOf[] {
  const byKey = new Map<string, { readonly shares: HostShares; readonly gbs: number[] }>();
  for (const { shares, gbs } of readings) {
    if (gbs === undefined) continue;
    const set = byKey.get(sharesKey(shares)) ?? { shares, gbs: [] };
    set.gbs.push(gbs);
    byKey.set(sharesKey(shares), set);
  }
  return [...byKey.values()];
}

/** A host's former table with the new figures; undefined when there are no figures, or when the host has too many GPUs. */
export function intraTable(
  { id, gpuCount }: HostShape,
  sets: readonly MeasuredSetOf[],
  former: IntraHostTable | undefined,
): IntraHostTable | undefined {
  const own = sets.flatMap(({ shares, gbs }) => {
    const [first, ...others] = shares;
    return first?.[0] === id && others.length === 0 ? [{ mask: first[1], gbs: median(gbs) }] : [];
  });
  if (gpuCount > MAX_TABLE_GPUS || own.length === 0) return former;
  const gbsByMask = Array.from(
    { length: 2 ** gpuCount },
    (_, mask) => former?.gbsByMask[mask] ?? null,
  );
  for (const { mask, gbs } of own) if (mask < gbsByMask.length) gbsByMask[mask] = gbs;
  return { gpuCount, gbsByMask };
}

/** The cluster's sets over several hosts; undefined when there are none. */
export function interTable(
  hosts: readonly HostShape[],
  sets: readonly MeasuredSetOf[],
  former: BandwidthTable | undefined,
): BandwidthTable | undefined {
  const names = hosts.map(({ id }): string => id);
  const own = sets.filter(({ shares }) => shares.length > 1);
  if (own.length === 0) return former;
  const byMasks = new Map<string, BandwidthTable["sets"][number]>();
  for (const { masks, gbs } of former?.sets ?? []) {
    const moved = names.map((name) => masks[former?.hosts.indexOf(name) ?? -1] ?? 0);
    byMasks.set(moved.join("/"), { masks: moved, gbs });
  }
  for (const { shares, gbs } of own) {
    const maskOf = new Map<string, number>(shares);
    const masks = names.map((name) => maskOf.get(name) ?? 0);
    byMasks.set(masks.join("/"), { masks, gbs: [median(gbs)] });
  }
  return {
    hosts: names,
    intraHost: names.map(() => null),
    sets: [...byMasks.values()],
    op: former?.op ?? "all_reduce",
    messageBytes: USUAL_MESSAGES.bytes,
  };
}

/** In the formats of a fleet file's `bandwidth`. */
export function intraCsv(tables: ReadonlyMap<string, IntraHostTable>): string {
  const rows = [...tables]
    .sort(([a], [b]) => byCodeUnit(a, b))
    .flatMap(([host, { gbsByMask }]) =>
      gbsByMask.flatMap((gbs, mask) => {
        const gpus = membersOf(mask);
        if (gpus.length === 0 || (gbs === null && gpus.length > 1)) return [];
        const cells = [plain(host), mask, gpus.join("+"), gpus.length, (gbs ?? 0).toFixed(2)];
        return [cells.map(String).join(",")];
      }),
    );
  return `host,mask,gpus,n_gpus,bandwidth_gbs\n${rows.join("\n")}\n`;
}

export function interCsv({ hosts, sets, op = "all_reduce" }: BandwidthTable): string {
  const head = hosts.map((host) => `mask_${plain(host)}`).join(",");
  const rows = sets.flatMap(({ masks, gbs }) => {
    const gpus = masks.reduce((sum, mask) => sum + popCount(mask), 0);
    const used = masks.filter((mask) => mask !== 0).length;
    return gbs.map((one) =>
      [`${op}_perf`, gpus, used, ...masks, USUAL_MESSAGES.bytes, one.toFixed(2)]
        .map(String)
        .join(","),
    );
  });
  return `op,n_gpus,n_hosts,${head},bytes,bandwidth_gbs\n${rows.join("\n")}\n`;
}

const plain = (host: string): string => host.slice(host.indexOf("/") + 1);
