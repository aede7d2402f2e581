/**
 * @file Reads the two files that a bandwidth truth is made of: all masks inside hosts, and sets over the hosts of one fabric.
 *
 * The product's own reader takes them, so each form that it knows will do. The files may call a host by different names
 * (`H100_26` and `mask_h26`): equal names, else the same number at the end, else the place in the order among hosts of one type.
 */

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type {
  BandwidthTable,
  IntraHostTable,
  MeasuredSet,
} from "../../domain/bandwidth/bandwidth-table.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { parseBandpilotCsv } from "../../domain/bandwidth/parse-bandpilot-csv.ts";
import { problemText } from "../../domain/values/problem.ts";
import { packageRoot } from "../../workers/server/package-root.ts";

export interface TruthHost {
  /** As the intra-host file has it. */
  readonly name: string;
  /** The name without the number at its end: `H100_26` has H100. */
  readonly gpuType: string;
  readonly table: IntraHostTable;
}

export interface TruthData {
  readonly hosts: readonly TruthHost[];
  /** The hosts of the inter-host file, in its order. */
  readonly fabricHosts: readonly TruthHost[];
  /** One mask for each of `fabricHosts`; sets inside one host too, where the file has them. */
  readonly sets: readonly MeasuredSet[];
  /** Where it came from, for reports. */
  readonly intraFile: string;
  readonly interFile: string;
}

interface TruthFiles {
  /** Absent: the package's own copy of the paper's data. */
  readonly intra?: string | undefined;
  readonly inter?: string | undefined;
}

export function readTruthData({ intra, inter }: TruthFiles = {}): TruthData {
  const intraFile = intra ?? ownFile("intra_host_16MB.csv");
  const interFile = inter ?? ownFile("h100_inter_host_16MB.csv");
  return truthData(
    { name: intraFile, text: textOf(intraFile, "--intra") },
    { name: interFile, text: textOf(interFile, "--inter") },
  );
}

interface NamedText {
  readonly name: string;
  readonly text: string;
}

export function truthData(intra: NamedText, inter: NamedText): TruthData {
  const intraTable = tableIn(intra);
  const interTable = tableIn(inter);
  const hosts = intraTable.hosts.flatMap((name, index): TruthHost[] => {
    const table = intraTable.intraHost[index];
    return table ? [{ name, gpuType: typeOf(name), table }] : [];
  });
  if (hosts.length === 0) {
    throw badInput(`${intra.name} has no sets inside hosts. Give host,mask,bandwidth_gbs rows.`);
  }
  if (interTable.hosts.length < 2 || interTable.sets.length === 0) {
    throw badInput(`${inter.name} has no sets over hosts. Give mask_<host> columns.`);
  }
  return {
    hosts,
    fabricHosts: matched(interTable.hosts, hosts, { intra: intra.name, inter: inter.name }),
    sets: interTable.sets,
    intraFile: intra.name,
    interFile: inter.name,
  };
}

const ownFile = (name: string): string => join(packageRoot(), "data", "bandpilot", name);

function textOf(file: string, option: string): string {
  try {
    return readFileSync(resolve(file), "utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw badInput(`${option} ${file} cannot be read (${reason}). Name a CSV file.`);
  }
}

function tableIn({ name, text }: NamedText): BandwidthTable {
  const parsed = parseBandpilotCsv(text, { source: name });
  if (parsed.kind === "parsed") return parsed.table;
  throw badInput(parsed.problems.map((problem) => problemText(name, problem)).join("\n"));
}

const typeOf = (name: string): string => name.replace(/[_-]\d+$/, "");

const numberAtEnd = (name: string): string | undefined => /\d+$/.exec(name)?.[0];

function matched(
  names: readonly string[],
  hosts: readonly TruthHost[],
  files: { readonly intra: string; readonly inter: string },
): readonly TruthHost[] {
  const found = names.map((name) => {
    const same = hosts.find((host) => host.name === name);
    if (same !== undefined) return same;
    const number = numberAtEnd(name);
    const numbered = hosts.filter(
      (host) =>
        number !== undefined && host.name !== host.gpuType && numberAtEnd(host.name) === number,
    );
    return numbered.length === 1 ? numbered[0] : undefined;
  });
  const all = found.flatMap((host) => (host === undefined ? [] : [host]));
  if (all.length === names.length && new Set(all).size === names.length) return all;
  const types = [...new Set(hosts.map((host) => host.gpuType))];
  const fitting = types
    .map((type) => hosts.filter((host) => host.gpuType === type))
    .filter((group) => group.length === names.length);
  const [group] = fitting;
  if (fitting.length === 1 && group !== undefined) return group;
  throw badInput(
    `${files.inter} is over hosts ${names.join(", ")}, ${files.intra} has ${hosts.map(({ name }) => name).join(", ")}. ` +
      "Name the hosts alike in both files, or by the same number at the end.",
  );
}

const badInput = (message: string): OrbweaverError => new OrbweaverError("BAD_INPUT", message);
