/**
 * @file Reads the files that a fleet file names, topologies and measured bandwidths, each file once.
 *
 * Problems inside such a file are reported with its own name and lines; what does not fit the fleet is reported where the
 * fleet file names it.
 */

import { mergedTables } from "../bandwidth/bandwidth-merge.ts";
import type { BandwidthTable, IntraHostTable } from "../bandwidth/bandwidth-table.ts";
import { harmless, shown, type FileProblem, type ValuePath } from "../values/file-problem.ts";
import type { DraftCluster, DraftHost, FleetDraft } from "./fleet-draft.ts";
import type { HostDetails } from "./fleet.ts";
import { clusterId, hostId, type ClusterId, type HostId } from "../values/ids.ts";
import {
  clusterBandwidth,
  hostBandwidth,
  parseMeasurements,
  type Measurements,
} from "../bandwidth/measured-bandwidth.ts";
import { parseTopology } from "../bandwidth/parse-topology.ts";
import type { Refused } from "../values/problem.ts";
import type { SchemaProblem } from "../file/schema-problems.ts";
import type { HostTopology } from "../values/topology.ts";

export interface FleetFiles {
  /** The name of the fleet file itself. */
  readonly file: string;
  /** Gives the text of a file that the fleet file names; the path is as written there, relative to the fleet file. */
  readonly read: (path: string) => FileText;
}

export type FileText =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "missing"; readonly reason: string };

export interface Measured {
  readonly details: ReadonlyMap<HostId, HostDetails>;
  /** The tables name hosts by their host ids. */
  readonly interHost: ReadonlyMap<ClusterId, BandwidthTable>;
  /** In the fleet file. */
  readonly problems: readonly SchemaProblem[];
  /** In the files that it names. */
  readonly fileProblems: readonly FileProblem[];
}

export function readMeasured(draft: FleetDraft, files: FleetFiles): Measured {
  const problems: SchemaProblem[] = [];
  const fileProblems: FileProblem[] = [];
  const desk: Desk = {
    problems,
    topology: reader(readTopology, files, { problems, fileProblems }),
    measurements: reader(parseMeasurements, files, { problems, fileProblems }),
  };
  const details = new Map<HostId, HostDetails>();
  const interHost = new Map<ClusterId, BandwidthTable>();
  for (const cluster of draft.clusters) {
    const { name } = cluster.item;
    const table = interHostOf(cluster, desk);
    if (table !== undefined && name !== undefined) interHost.set(clusterId(name), table);
    for (const host of cluster.hosts) {
      const topology = topologyOf(host, desk);
      const bandwidths = bandwidthsOf(host, desk);
      // A cluster without a good name has no part in the fleet; its files are looked at all the same.
      if (name === undefined) continue;
      for (const [index, hostName] of host.names.entries()) {
        const bandwidth = bandwidths[index];
        if (topology === undefined && bandwidth === undefined) continue;
        details.set(hostId(name, hostName), {
          ...(topology !== undefined && { topology }),
          ...(bandwidth !== undefined && { bandwidth }),
        });
      }
    }
  }
  return { details, interHost, problems, fileProblems };
}

/** The content of a file; undefined after a problem was noted. */
type Reader<Value> = (path: string, at: ValuePath) => Value | undefined;

interface Desk {
  readonly problems: SchemaProblem[];
  readonly topology: Reader<HostTopology>;
  readonly measurements: Reader<Measurements>;
}

type Contents<Value> = { readonly kind: "read"; readonly value: Value } | Refused;

function readTopology(text: string, source: string): Contents<HostTopology> {
  const parsed = parseTopology(text, { source });
  return parsed.kind === "parsed" ? { kind: "read", value: parsed.topology } : parsed;
}

/** A file that cannot be read is a problem wherever it is named; what is wrong inside it is reported once. */
function reader<Value>(
  parse: (text: string, source: string) => Contents<Value>,
  { file, read }: FleetFiles,
  {
    problems,
    fileProblems,
  }: { readonly problems: SchemaProblem[]; readonly fileProblems: FileProblem[] },
): Reader<Value> {
  const contentsByPath = new Map<
    string,
    Contents<Value> | { readonly kind: "missing"; readonly reason: string }
  >();
  return (path, at) => {
    let contents = contentsByPath.get(path);
    if (contents === undefined) {
      const found = read(path);
      contents = found.kind === "text" ? parse(found.text, besideFile(file, path)) : found;
      contentsByPath.set(path, contents);
      if (contents.kind === "refused") fileProblems.push(...problemsInside(contents));
    }
    if (contents.kind === "missing") {
      const message = `file ${shown(path)} cannot be read (${harmless(contents.reason)})`;
      problems.push({
        path: at,
        part: "value",
        value: path,
        message,
        remedy: "write its path relative to this file",
      });
    }
    return contents.kind === "read" ? contents.value : undefined;
  };
}

const problemsInside = ({ source, problems }: Refused): FileProblem[] =>
  problems.map(({ line, column, message, remedy }) => ({
    file: source,
    line,
    ...(column !== undefined && { column }),
    path: "",
    value: "",
    message,
    remedy,
  }));

function topologyOf(
  { path, item }: DraftHost,
  { topology, problems }: Desk,
): HostTopology | undefined {
  if (item.topology === undefined) return undefined;
  const at = [...path, "topology"];
  const found = topology(item.topology, at);
  if (found === undefined || item.gpus === undefined || found.gpuCount === item.gpus) return found;
  const message = `${shown(item.topology)} shows ${found.gpuCount} GPUs, the host has ${item.gpus}`;
  const remedy = `write gpus: ${found.gpuCount}, or give the topology of this host`;
  problems.push({ path: at, part: "value", value: item.topology, message, remedy });
  return undefined;
}

/** One for each of the entry's names, or none at all. */
function bandwidthsOf(
  { path, item, names }: DraftHost,
  { measurements, problems }: Desk,
): readonly IntraHostTable[] {
  if (item.bandwidth === undefined || item.gpus === undefined) return [];
  const at = [...path, "bandwidth"];
  const { file, host: nameInFile } =
    typeof item.bandwidth === "string" ? { file: item.bandwidth } : item.bandwidth;
  const measured = measurements(file, at);
  if (measured === undefined) return [];
  const tables: IntraHostTable[] = [];
  for (const name of names) {
    const isSameForAll = measured.kind === "runs" || nameInFile !== undefined;
    const [first] = tables;
    if (isSameForAll && first !== undefined) {
      tables.push(first);
      continue;
    }
    const reading = hostBandwidth(measured, { name, nameInFile, gpuCount: item.gpus });
    if (reading.kind === "refused") {
      const { message, remedy } = reading;
      problems.push({ path: at, part: "value", value: item.bandwidth, message, remedy });
      return [];
    }
    tables.push(reading.value);
  }
  return tables;
}

function interHostOf(
  { path, item, hosts }: DraftCluster,
  { measurements, problems }: Desk,
): BandwidthTable | undefined {
  if (item.bandwidth === undefined) return undefined;
  const at = [...path, "bandwidth"];
  const gpuCounts = new Map<string, number>();
  for (const host of hosts) {
    const { gpus } = host.item;
    // With a host that has problems of its own, the file's hosts cannot be assigned.
    if (gpus === undefined || host.names.length === 0) return undefined;
    for (const name of host.names) gpuCounts.set(name, gpus);
  }
  const isList = Array.isArray(item.bandwidth);
  const tables: BandwidthTable[] = [];
  for (const [index, entry] of [item.bandwidth].flat().entries()) {
    const place = isList ? [...at, index] : at;
    const wanted = typeof entry === "string" ? { file: entry } : entry;
    const measured = measurements(wanted.file, place);
    if (measured === undefined) continue;
    const reading = clusterBandwidth(measured, { gpuCounts, hosts: wanted.hosts });
    if (reading.kind === "read") {
      tables.push(reading.value);
      continue;
    }
    const message = `${shown(wanted.file)}: ${reading.message}`;
    const { remedy } = reading;
    problems.push({ path: place, part: "value", value: entry, message, remedy });
  }
  const [first] = tables;
  const { name: cluster } = item;
  if (cluster === undefined || first === undefined) return undefined;
  const table = tables.length === 1 ? first : mergedTables(tables);
  return { ...table, hosts: table.hosts.map((host) => hostId(cluster, host)) };
}

/** The path of a file that another file names relative to itself. */
function besideFile(file: string, path: string): string {
  return path.startsWith("/") ? path : file.slice(0, file.lastIndexOf("/") + 1) + path;
}
