/**
 * @file Finds in a file of measurements what a fleet file wants of it: the GPU sets of one host, or the sets over several.
 *
 * BandPilot's CSV forms name their hosts; of an nccl-tests log each run is one GPU set of one host, read at the message
 * size nearest to 16 MiB, which is what BandPilot's tables hold; all_reduce goes before other collectives.
 */

import { MAX_TABLE_GPUS, type BandwidthTable, type IntraHostTable } from "./bandwidth-table.ts";
import { shown } from "./file-problem.ts";
import { nearestName } from "./nearest-name.ts";
import { busBwNearGBs, type NcclRun } from "./nccl-run.ts";
import { parseBandpilotCsv } from "./parse-bandpilot-csv.ts";
import { parseNcclTests } from "./parse-nccl-tests.ts";
import type { Refused } from "./problem.ts";
import { refused } from "./schema-leaf.ts";
import type { Reading } from "./quantity.ts";

const MESSAGE_BYTES = 16 * 1024 * 1024;

/** A file of measurements as it was parsed, once for all that refer to it. */
export type Measurements =
  | { readonly kind: "table"; readonly table: BandwidthTable }
  | { readonly kind: "runs"; readonly runs: readonly NcclRun[] };

export function parseMeasurements(
  text: string,
  source: string,
): { readonly kind: "read"; readonly value: Measurements } | Refused {
  // All of BandPilot's forms begin with one of two columns; no line of nccl-tests does.
  if (/^\s*"?(host|op)"?,/i.test(text)) {
    const parsed = parseBandpilotCsv(text, { source });
    if (parsed.kind === "refused") return parsed;
    return { kind: "read", value: { kind: "table", table: parsed.table } };
  }
  const parsed = parseNcclTests(text, { source });
  if (parsed.kind === "refused") return parsed;
  return { kind: "read", value: { kind: "runs", runs: parsed.runs } };
}

export interface WantedHost {
  /** The host's own name. */
  readonly name: string;
  /** What the file calls it; absent when the author did not say. */
  readonly nameInFile: string | undefined;
  readonly gpuCount: number;
}

export function hostBandwidth(measured: Measurements, wanted: WantedHost): Reading<IntraHostTable> {
  if (wanted.gpuCount > MAX_TABLE_GPUS) {
    const found = `a table of ${wanted.gpuCount} GPUs would have 2^${wanted.gpuCount} entries`;
    return refused(found, `leave bandwidth out; tables hold up to ${MAX_TABLE_GPUS} GPUs`);
  }
  const reading =
    measured.kind === "table"
      ? tableOfHost(measured.table, wanted)
      : tableOfRuns(measured.runs, wanted);
  if (reading.kind === "refused" || reading.value.gpuCount === wanted.gpuCount) return reading;
  const found = `the measurements are of ${reading.value.gpuCount} GPUs, the host has ${wanted.gpuCount}`;
  return refused(
    found,
    `write gpus: ${reading.value.gpuCount}, or give the measurements of this host`,
  );
}

function tableOfHost(
  table: BandwidthTable,
  { name, nameInFile }: WantedHost,
): Reading<IntraHostTable> {
  const inside = new Map(
    table.hosts.flatMap((host, index) => {
      const intra = table.intraHost[index];
      return intra ? [[host, intra] as const] : [];
    }),
  );
  const names = [...inside.keys()];
  if (names.length === 0)
    return refused(
      "the file has no GPU sets inside one host",
      "give it as the bandwidth of the cluster",
    );
  const sought = nameInFile ?? (names.length === 1 ? names[0] : name);
  const intra = inside.get(sought ?? name);
  if (intra !== undefined) return { kind: "read", value: intra };
  const near = nearestName(sought ?? name, names);
  const hint = `write {file: …, host: ${near ?? names[0]}}; the file has ${names.slice(0, 10).join(", ")}`;
  return refused(`the file has no host ${shown(sought)}`, hint);
}

function tableOfRuns(runs: readonly NcclRun[], { gpuCount }: WantedHost): Reading<IntraHostTable> {
  const gbsByMask: (number | null)[] = new Array<number | null>(2 ** gpuCount).fill(null);
  let isAnyUsed = false;
  const ordered = [...runs].sort(
    (a, b) => Number(b.op === "all_reduce") - Number(a.op === "all_reduce"),
  );
  for (const run of ordered) {
    const gbs = busBwNearGBs(run, MESSAGE_BYTES);
    const hosts = new Set(run.ranks.map((rank) => rank.host));
    const gpus = new Set(run.ranks.map((rank) => rank.device));
    // One GPU does not communicate; ranks that share a number, or lie on several hosts, say nothing about sets of one host.
    if (
      gbs === undefined ||
      gbs <= 0 ||
      hosts.size !== 1 ||
      gpus.size < 2 ||
      gpus.size !== run.ranks.length
    )
      continue;
    const highest = Math.max(...gpus);
    if (highest >= gpuCount) {
      return refused(
        `line ${run.line} measures GPU ${highest}, the host has ${gpuCount}`,
        `write gpus: ${highest + 1}, or give the log of this host`,
      );
    }
    const mask = [...gpus].reduce((sum, gpu) => sum | (1 << gpu), 0);
    gbsByMask[mask] ??= gbs;
    isAnyUsed = true;
  }
  if (isAnyUsed) return { kind: "read", value: { gpuCount, gbsByMask } };
  return refused(
    "no run of the log is of several GPUs of one host",
    "give a log with its rank lines, of a run inside this host",
  );
}

export interface WantedCluster {
  /** GPUs of each host of the cluster. */
  readonly gpuCounts: ReadonlyMap<string, number>;
  /** The hosts that the columns mean, in order; absent when the file's own names are meant. */
  readonly hosts: readonly string[] | undefined;
}

/** The table with the cluster's own host names. */
export function clusterBandwidth(
  measured: Measurements,
  { gpuCounts, hosts }: WantedCluster,
): Reading<BandwidthTable> {
  if (measured.kind === "runs" || measured.table.sets.length === 0) {
    return refused(
      "the file has no GPU sets over several hosts",
      "give a CSV with a mask_<host> column for each host",
    );
  }
  const { table } = measured;
  const names = hosts ?? table.hosts;
  if (names.length !== table.hosts.length) {
    const remedy = `name ${table.hosts.length} hosts of the cluster, in the order ${table.hosts.join(", ")}`;
    return refused(`${names.length} hosts are named, the file has ${table.hosts.length}`, remedy);
  }
  for (const [index, name] of names.entries()) {
    const gpuCount = gpuCounts.get(name);
    if (gpuCount === undefined) {
      const near = nearestName(name, [...gpuCounts.keys()]);
      const meant = near === undefined ? "" : ` (did you mean ${near}?)`;
      const remedy = `write {file: …, hosts: [${table.hosts.map(() => "…").join(", ")}]} with hosts of the cluster${meant}`;
      return refused(`the cluster has no host ${shown(name)}`, remedy);
    }
    const beyond = table.sets.find(({ masks }) => (masks[index] ?? 0) >= 2 ** gpuCount);
    if (beyond !== undefined) {
      const found = `GPU ${31 - Math.clz32(beyond.masks[index] ?? 0)} of ${shown(name)} is measured, the host has ${gpuCount} GPUs`;
      return refused(found, "name the hosts in the order of the file's columns");
    }
  }
  if (new Set(names).size < names.length)
    return refused("a host is named twice", "name each host once");
  return { kind: "read", value: { ...table, hosts: names } };
}
