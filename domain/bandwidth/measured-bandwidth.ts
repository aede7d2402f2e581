/**
 * @file Extracts from a file of measurements the part that a fleet file refers to: the GPU sets of one host, or those over several.
 *
 * BandPilot's CSV forms name their hosts; of an nccl-tests log each run is one GPU set, of one host or over several
 * (`measured-runs.ts` says which runs count); all_reduce goes before other collectives.
 */

import { MAX_TABLE_GPUS, type BandwidthTable, type IntraHostTable } from "./bandwidth-table.ts";
import { maskOf } from "../../lib/bits.ts";
import { shown } from "../values/file-problem.ts";
import { nearestName } from "../values/nearest-name.ts";
import { mergedTables } from "./bandwidth-merge.ts";
import { measuredRuns, namesText, spanText, tableOfRun } from "./measured-runs.ts";
import { opOfName, type NcclRun } from "./nccl-run.ts";
import { parseBandpilotCsv } from "./parse-bandpilot-csv.ts";
import { parseNcclTests } from "./parse-nccl-tests.ts";
import type { Refused } from "../values/problem.ts";
import { refused } from "../file/schema-leaf.ts";
import type { Reading } from "../values/quantity.ts";

/** A parsed file of measurements, shared by all references to it. */
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
  const op = opOfName(source.slice(source.lastIndexOf("/") + 1)) ?? opOfName(source);
  const parsed = parseNcclTests(text, { source, ...(op !== undefined && { op }) });
  if (parsed.kind === "refused") return parsed;
  return { kind: "read", value: { kind: "runs", runs: parsed.runs } };
}

export interface WantedHost {
  /** The host's own name. */
  readonly name: string;
  /** Its name in the file; absent when the author did not give one. */
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

function tableOfRuns(
  runs: readonly NcclRun[],
  { nameInFile, gpuCount }: WantedHost,
): Reading<IntraHostTable> {
  const measured = measuredRuns(runs);
  if (measured.kind === "refused") return measured;
  const inside = measured.value.filter((run) => run.gpusByHost.size === 1);
  const [spanning] = measured.value;
  if (inside.length === 0 && spanning !== undefined) {
    return refused(spanText(spanning), "give it as the bandwidth of the cluster");
  }
  const wanted = inside.filter((run) => nameInFile === undefined || run.gpusByHost.has(nameInFile));
  if (wanted.length === 0) {
    const names = [...new Set(inside.flatMap((run) => [...run.gpusByHost.keys()]))];
    return refused(`the log has no host ${shown(nameInFile)}`, `it has ${namesText(names)}`);
  }
  const gbsByMask: (number | null)[] = new Array<number | null>(2 ** gpuCount).fill(null);
  const ordered = [...wanted].sort(
    (a, b) => Number(b.op === "all_reduce") - Number(a.op === "all_reduce"),
  );
  for (const { line, gpusByHost, gbs } of ordered) {
    const gpus = [...gpusByHost.values()].flat();
    const highest = Math.max(...gpus);
    if (highest >= gpuCount) {
      return refused(
        `line ${line} measures GPU ${highest}, the host has ${gpuCount}`,
        `write gpus: ${highest + 1}, or give the log of this host`,
      );
    }
    gbsByMask[maskOf(gpus)] ??= gbs;
  }
  return { kind: "read", value: { gpuCount, gbsByMask } };
}

export interface WantedCluster {
  /** GPUs of each host of the cluster. */
  readonly gpuCounts: ReadonlyMap<string, number>;
  /** The hosts that the columns stand for, in order; absent when the file's own names apply. */
  readonly hosts: readonly string[] | undefined;
}

/** The table with the cluster's own host names. */
export function clusterBandwidth(
  measured: Measurements,
  { gpuCounts, hosts }: WantedCluster,
): Reading<BandwidthTable> {
  const reading = tableOverHosts(measured);
  if (reading.kind === "refused") return reading;
  const table = reading.value;
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
      const remedy = `write {file: …, hosts: […]} with ${table.hosts.length} hosts of the cluster, in the order ${namesText(table.hosts)}${meant}`;
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

function tableOverHosts(measured: Measurements): Reading<BandwidthTable> {
  if (measured.kind === "table") {
    if (measured.table.sets.length > 0) return { kind: "read", value: measured.table };
    return refused(
      "the file has no GPU sets over several hosts",
      "give a CSV with a mask_<host> column for each host",
    );
  }
  const runs = measuredRuns(measured.runs);
  if (runs.kind === "refused") return runs;
  const spanning = runs.value.filter((run) => run.gpusByHost.size > 1);
  if (spanning.length > 0) {
    return { kind: "read", value: mergedTables(spanning.map(tableOfRun)) };
  }
  const names = [...new Set(runs.value.flatMap((run) => [...run.gpusByHost.keys()]))];
  return refused(
    `no run of the log spans several hosts (it has ${namesText(names)})`,
    "give it as the bandwidth of the host",
  );
}

/** The facts about the machines that a file of measurements contains. */
export interface Survey {
  /** In order of appearance, by their names in the file. */
  readonly hosts: readonly SurveyedHost[];
  /** Whether sets over several hosts were measured. */
  readonly isOverHosts: boolean;
}

export interface SurveyedHost {
  readonly name: string;
  /** One more than the highest GPU that was measured. */
  readonly gpuCount: number;
  /** e.g. `NVIDIA H100 80GB HBM3`; absent where the file does not say. */
  readonly device?: string;
  /** Whether sets inside it were measured. */
  readonly isInside: boolean;
}

export function surveyOf(measured: Measurements): Reading<Survey> {
  if (measured.kind === "table") return { kind: "read", value: surveyOfTable(measured.table) };
  const runs = measuredRuns(measured.runs);
  if (runs.kind === "refused") return runs;
  const ranks = measured.runs.flatMap((run) => run.ranks);
  const deviceByHost = new Map(ranks.map(({ host, name }) => [host, name]));
  const byName = new Map<string, SurveyedHost>();
  for (const { gpusByHost } of runs.value) {
    for (const [name, gpus] of gpusByHost) {
      const former = byName.get(name);
      const device = deviceByHost.get(name) ?? "";
      byName.set(name, {
        name,
        gpuCount: Math.max(former?.gpuCount ?? 0, ...gpus.map((gpu) => gpu + 1)),
        ...(device !== "" && { device }),
        isInside: former?.isInside === true || gpusByHost.size === 1,
      });
    }
  }
  const isOverHosts = runs.value.some((run) => run.gpusByHost.size > 1);
  return { kind: "read", value: { hosts: [...byName.values()], isOverHosts } };
}

function surveyOfTable({ hosts, intraHost, sets }: BandwidthTable): Survey {
  return {
    hosts: hosts.map((name, index) => ({
      name,
      gpuCount:
        intraHost[index]?.gpuCount ??
        Math.max(1, ...sets.map(({ masks }) => 32 - Math.clz32(masks[index] ?? 0))),
      isInside: (intraHost[index] ?? null) !== null,
    })),
    isOverHosts: sets.length > 0,
  };
}
