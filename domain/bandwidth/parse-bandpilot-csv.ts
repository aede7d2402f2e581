/**
 * @file Reads bandwidth measurements in the four forms of BandPilot's data into bandwidth tables.
 *
 * One function; the header line tells the form:
 *   host,mask,…,bandwidth_gbs                      all masks of several hosts (`intra_host_16MB.csv`)
 *   op,…,mask_<host>,…,bytes,bandwidth_gbs         sets over hosts (`h100_inter_host_16MB.csv`)
 *   OP,GPU_num,GPU_used,data_size(B),Bandwidth(GB/s)    the raw log of one host; GPUs as digits, "013"
 *   "OP","Total_GPU_Count","GPU_Mapping_Across_Nodes",…  the raw log of sets; GPUs as "[[0,1],[0],[],[]]"
 * A bandwidth of 0.0 for one GPU means that nothing was sent: it is stored as not measured. The same 0.0 for
 * several GPUs is refused. Sets that were measured twice keep both values.
 */

import {
  MAX_TABLE_GPUS,
  type BandwidthTable,
  type IntraHostTable,
  type MeasuredSet,
} from "./bandwidth-table.ts";
import { cellReader, decimal, readCsv, type CsvRow, type CsvTable } from "../values/csv.ts";
import { shown } from "../values/file-problem.ts";
import { popCount } from "../lease/lease.ts";
import { refuse, type Problem, type Refused } from "../values/problem.ts";
import { refuseBySize } from "../values/text-lines.ts";

export type ParsedBandwidth = { readonly kind: "parsed"; readonly table: BandwidthTable } | Refused;

export interface BandwidthTextName {
  /** The name of the text; the raw log of one host takes its host's name from it. */
  readonly source: string;
}

/** One line of any form: the GPUs and their bandwidth. */
interface Measurement {
  readonly line: number;
  readonly masks: readonly number[];
  readonly gbs: number;
  readonly op: string;
  readonly bytes: number | undefined;
}

export function parseBandpilotCsv(text: string, { source }: BandwidthTextName): ParsedBandwidth {
  const bySize = refuseBySize(text, source, { what: "a file of bandwidth measurements" });
  if (bySize !== undefined) return bySize;
  const csv = readCsv(text);
  const problems: Problem[] = [...csv.badRows];
  const form = formOf(csv, source);
  if (form === undefined) {
    return refuse(source, [
      {
        line: 1,
        message: `the header is ${shown(csv.header.join(","))}`,
        remedy:
          "give host,mask,bandwidth_gbs or mask_<host> columns with bandwidth_gbs, or BandPilot's raw logs",
      },
    ]);
  }
  const measurements = csv.rows.flatMap((row) => readMeasurement(row, form, problems));
  if (measurements.length === 0 && problems.length === 0) {
    problems.push({ line: 1, message: "there are no rows", remedy: "give the measurements too" });
  }
  if (problems.length > 0) return refuse(source, problems);
  return { kind: "parsed", table: tableOf(form, measurements) };
}

/** How to read a row: the hosts, and the mask of each in a row (text or problem). */
interface Form {
  readonly hosts: readonly string[];
  /** Every row lies in one host; all its masks make a table. */
  readonly isIntraHost: boolean;
  readonly masksOf: (row: CsvRow) => readonly number[] | string;
  readonly gbsOf: (row: CsvRow) => string;
  readonly opOf: (row: CsvRow) => string;
  readonly bytesOf: (row: CsvRow) => string;
}

function formOf(csv: CsvTable, source: string): Form | undefined {
  const cell = cellReader(csv);
  const has = (...names: string[]): boolean => names.every((name) => csv.header.includes(name));
  const plain = {
    gbsOf: (row: CsvRow) => cell(row, "bandwidth_gbs"),
    opOf: (row: CsvRow) => cell(row, "op"),
    bytesOf: (row: CsvRow) => cell(row, "bytes"),
  };
  const raw = {
    gbsOf: (row: CsvRow) => cell(row, "Bandwidth(GB/s)"),
    opOf: (row: CsvRow) => cell(row, "OP"),
    bytesOf: (row: CsvRow) => cell(row, "data_size(B)"),
  };
  if (has("host", "mask", "bandwidth_gbs")) {
    const hosts = [...new Set(csv.rows.map((row) => cell(row, "host")))];
    const masksOf = (row: CsvRow): readonly number[] | string => {
      const mask = maskOfNumber(cell(row, "mask"));
      return typeof mask === "string"
        ? mask
        : hosts.map((host) => (host === cell(row, "host") ? mask : 0));
    };
    return { hosts, isIntraHost: true, masksOf, ...plain };
  }
  const maskColumns = csv.header.filter((name) => /^mask_[\w.-]+$/.test(name));
  if (maskColumns.length > 0 && has("bandwidth_gbs")) {
    const hosts = maskColumns.map((name) => name.slice("mask_".length));
    const masksOf = (row: CsvRow): readonly number[] | string =>
      allMasks(maskColumns.map((name) => maskOfNumber(cell(row, name))));
    return { hosts, isIntraHost: false, masksOf, ...plain };
  }
  if (has("OP", "GPU_used", "Bandwidth(GB/s)")) {
    const hosts = [hostOfFileName(source)];
    const masksOf = (row: CsvRow): readonly number[] | string =>
      allMasks([maskOfGpus([...cell(row, "GPU_used")])]);
    return { hosts, isIntraHost: true, masksOf, ...raw };
  }
  if (has("OP", "GPU_Mapping_Across_Nodes", "Bandwidth(GB/s)")) {
    const mapping = (row: CsvRow): readonly number[] | string =>
      masksOfMapping(cell(row, "GPU_Mapping_Across_Nodes"));
    const [first] = csv.rows;
    const hostCount = first === undefined ? 0 : mapping(first).length;
    const hosts = Array.from({ length: hostCount }, (_, index) => `host${index}`);
    return { hosts, isIntraHost: false, masksOf: mapping, ...raw };
  }
  return undefined;
}

function readMeasurement(row: CsvRow, form: Form, problems: Problem[]): Measurement[] {
  const bad = (message: string, remedy: string): Measurement[] => {
    problems.push({ line: row.line, message, remedy });
    return [];
  };
  const masks = form.masksOf(row);
  if (typeof masks === "string") {
    return bad(`the GPUs are ${shown(masks)}`, `name GPUs 0 to ${MAX_TABLE_GPUS - 1}, each once`);
  }
  if (masks.length !== form.hosts.length || masks.every((mask) => mask === 0)) {
    return bad(
      `${masks.length} hosts are named, or no GPU at all`,
      `name at least one GPU, on ${form.hosts.length} hosts as in the first row`,
    );
  }
  const gbs = decimal(form.gbsOf(row));
  const gpuCount = masks.reduce((sum, mask) => sum + popCount(mask), 0);
  if (gbs === undefined || gbs < 0 || (gbs === 0 && gpuCount > 1)) {
    return bad(
      `the bandwidth is ${shown(form.gbsOf(row))}`,
      "it is a number of GB/s above 0; leave out what was not measured (0.0 is only for one GPU)",
    );
  }
  const bytes = decimal(form.bytesOf(row));
  return [{ line: row.line, masks, gbs, op: form.opOf(row), bytes }];
}

function tableOf(form: Form, measurements: readonly Measurement[]): BandwidthTable {
  const ops = new Set(measurements.map(({ op }) => op.replace(/_perf$/, "")));
  const sizes = new Set(measurements.map(({ bytes }) => bytes));
  const [op] = ops;
  const [messageBytes] = sizes;
  return {
    hosts: form.hosts,
    intraHost: form.hosts.map((_, host) =>
      form.isIntraHost ? intraTable(measurements, host) : null,
    ),
    sets: form.isIntraHost ? [] : measuredSets(measurements),
    ...(ops.size === 1 && op !== undefined && op !== "" && { op }),
    ...(sizes.size === 1 && messageBytes !== undefined && { messageBytes }),
  };
}

/** The GPU count is that of the highest GPU seen; a mask measured several times takes their mean. */
function intraTable(measurements: readonly Measurement[], host: number): IntraHostTable {
  const gbsByMask = new Map<number, number[]>();
  let highest = 1;
  for (const { masks, gbs } of measurements) {
    const mask = masks[host] ?? 0;
    highest = Math.max(highest, mask);
    if (mask !== 0 && gbs > 0) gbsByMask.set(mask, [...(gbsByMask.get(mask) ?? []), gbs]);
  }
  const gpuCount = 32 - Math.clz32(highest);
  const slots = Array.from({ length: 1 << gpuCount }, (_, mask) => {
    const values = gbsByMask.get(mask);
    return values === undefined ? null : values.reduce((sum, gbs) => sum + gbs, 0) / values.length;
  });
  return { gpuCount, gbsByMask: slots };
}

function measuredSets(measurements: readonly Measurement[]): MeasuredSet[] {
  const byKey = new Map<string, { readonly masks: readonly number[]; readonly gbs: number[] }>();
  for (const { masks, gbs } of measurements) {
    if (gbs === 0) continue;
    const key = masks.join("/");
    const set = byKey.get(key) ?? { masks, gbs: [] };
    set.gbs.push(gbs);
    byKey.set(key, set);
  }
  return [...byKey.values()];
}

/** A mask, or the text that could not be read as one. */
function maskOfNumber(text: string): number | string {
  const mask = /^\d+$/.test(text) ? Number(text) : -1;
  return mask >= 0 && mask < 2 ** MAX_TABLE_GPUS ? mask : text;
}

function maskOfGpus(gpus: readonly string[]): number | string {
  let mask = 0;
  for (const text of gpus) {
    const gpu = /^\d+$/.test(text) ? Number(text) : -1;
    if (gpu < 0 || gpu >= MAX_TABLE_GPUS || (mask & (1 << gpu)) !== 0) return gpus.join("");
    mask |= 1 << gpu;
  }
  return mask;
}

/** `[[0,1],[0],[],[]]` */
function masksOfMapping(text: string): readonly number[] | string {
  const compact = text.replaceAll(" ", "");
  if (!/^\[\[[\d,]*\](,\[[\d,]*\])*\]$/.test(compact)) return text;
  const masks = compact
    .slice(2, -2)
    .split("],[")
    .map((gpus) => maskOfGpus(gpus === "" ? [] : gpus.split(",")));
  return masks.some((mask) => typeof mask === "string") ? text : allMasks(masks);
}

function allMasks(masks: readonly (number | string)[]): readonly number[] | string {
  const numbers: number[] = [];
  for (const mask of masks) {
    if (typeof mask === "string") return mask;
    numbers.push(mask);
  }
  return numbers;
}

/** `raw/H100_26_bandwidth_data_8.txt` is of host `H100_26`. */
function hostOfFileName(source: string): string {
  const name = source.split(/[\\/]/).at(-1) ?? source;
  return name.replace(/\.\w+$/, "").replace(/_bandwidth_data.*$/, "");
}
