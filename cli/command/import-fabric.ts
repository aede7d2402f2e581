/**
 * @file Reads the `--fabric` files of `fleet import`: racks of hosts that other files describe, or the hosts themselves.
 *
 * Where several files place a host, an NVLink domain counts first, then the file that was given first. Hosts are found by their names, with or
 * without what follows the first dot.
 */

import { basename, extname, resolve } from "node:path";
import type { HostEntry } from "../../domain/fleet/fleet-file.ts";
import type { Fabric, FabricHost } from "../../domain/fabric/fabric-hosts.ts";
import { needsHostName, parseFabric } from "../../domain/fabric/parse-fabric.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { harmless } from "../../domain/values/file-problem.ts";
import { gpuTypeOfDevice } from "../../domain/values/gpu-device-name.ts";
import { gpuTypeName } from "../../domain/values/gpu-types.ts";
import { expandHosts } from "../../domain/values/host-range.ts";
import { problemText } from "../../domain/values/problem.ts";
import { namesText } from "../../domain/bandwidth/measured-runs.ts";
import { counted } from "../terminal/duration.ts";
import { readText } from "./fleet-files.ts";

export interface FabricFile extends Fabric {
  /** As the user gave it. */
  readonly file: string;
  /** The host of an `nvidia-smi -q` that does not say whose it is. */
  readonly named?: string;
}

/**
 * All problems of all files at once. Files of `nvidia-smi -q` are of the hosts of `names`, in the same order, where there is one for each, and else
 * each of the host that the file is called by.
 */
export function readFabrics(
  cwd: string,
  files: readonly string[],
  names: readonly string[] | undefined,
): readonly FabricFile[] {
  const problems: string[] = [];
  const texts = files.flatMap((file) => {
    const found = readText(resolve(cwd, file));
    if (found.kind === "text") return [{ file, text: found.text }];
    problems.push(`${harmless(file)} ${found.reason}. Name a file about the fabric.`);
    return [];
  });
  const ofHosts = texts.filter(({ text }) => needsHostName(text));
  const wanted = names?.flatMap(namesIn);
  const isOneEach = wanted?.length === ofHosts.length;
  const fabrics = texts.flatMap((each): FabricFile[] => {
    const { file, text } = each;
    const index = ofHosts.indexOf(each);
    const host = (isOneEach ? wanted[index] : undefined) ?? basename(file, extname(file));
    const parsed = parseFabric(text, { source: file, host });
    if (parsed.kind === "parsed") {
      return [{ file, ...parsed.fabric, ...(index !== -1 && { named: host }) }];
    }
    problems.push(...parsed.problems.map((problem) => problemText(file, problem)));
    return [];
  });
  problems.push(...misnamed(fabrics, wanted));
  if (problems.length > 0) {
    throw new OrbweaverError("BAD_INPUT", problems.join("\n"), { details: { problems } });
  }
  return fabrics;
}

/** Files that are called by one host, or by a host that is not wanted: their NVLink domains would be lost without a word. */
function misnamed(
  fabrics: readonly FabricFile[],
  wanted: readonly string[] | undefined,
): readonly string[] {
  const files = new Map<string, string>();
  const count = fabrics.filter(({ named }) => named !== undefined).length;
  return fabrics.flatMap(({ file, named }) => {
    if (named === undefined) return [];
    const former = files.get(named);
    files.set(named, file);
    if (former !== undefined) {
      return [
        `${harmless(former)} and ${harmless(file)} are both taken for host ${harmless(named)}. Give --name with one name for each file of nvidia-smi -q, in the same order.`,
      ];
    }
    if (wanted?.some((name) => shortName(name) === shortName(named)) ?? true) return [];
    return [
      `${counted(wanted?.length ?? 0, "name")} for ${counted(count, "file")} of nvidia-smi -q, and ${harmless(file)} is called by none of them. Give one name for each of these files, in the same order, or call each by its host, e.g. ${harmless(wanted?.[0] ?? "")}${harmless(extname(file))}.`,
    ];
  });
}

const FROM_DRIVER = "nvidia-smi -q";

/** Without the domain; an address has none. */
const shortName = (name: string): string =>
  /^\d+(\.\d+){3}$/.test(name) ? name : name.replace(/\..*$/, "");

function byNames(fabrics: readonly FabricFile[]): ReadonlyMap<string, FabricHost> {
  const inTurn = [
    ...fabrics.filter(({ form }) => form === FROM_DRIVER),
    ...fabrics.filter(({ form }) => form !== FROM_DRIVER),
  ];
  const found = new Map<string, FabricHost>();
  for (const host of inTurn.flatMap(({ hosts }) => hosts)) {
    const former = found.get(host.name);
    found.set(host.name, former === undefined ? host : { ...host, ...former });
  }
  return found;
}

/** The entries with the racks that the fabric has for them; every host has to be in it. A range over several racks becomes an entry for each host. */
export function withRacks(
  hosts: readonly HostEntry[],
  fabrics: readonly FabricFile[],
): readonly HostEntry[] {
  const known = byNames(fabrics);
  const byShort = new Map([...known.values()].map((host) => [shortName(host.name), host]));
  const lacking: string[] = [];
  const placed = hosts.flatMap((host): HostEntry[] => {
    const names = namesIn(host.name);
    const racks = names.map((name) => {
      const found = known.get(name) ?? byShort.get(shortName(name));
      if (found === undefined) lacking.push(name);
      return found?.rack;
    });
    const isOne = racks.every((rack) => rack === racks[0]);
    const entries = isOne ? [host] : names.map((name) => ({ ...host, name }));
    return entries.map((entry, index) => {
      const rack = racks[index];
      return rack === undefined ? entry : { ...entry, rack };
    });
  });
  if (lacking.length > 0) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${namesText(lacking)}: not in ${fabrics.map(({ file }) => harmless(file)).join(", ")}, which ${fabrics.length === 1 ? "has" : "have"} ${namesText([...known.keys()])}. Give --name with the names that the fabric has.`,
    );
  }
  return placed;
}

/** The hosts of a range; what is no name at all is left to the fleet file's parser. */
function namesIn(text: string): readonly string[] {
  const names = expandHosts(text);
  return names.kind === "read" ? names.value : [text];
}

interface Wanted {
  readonly name?: readonly string[] | undefined;
  readonly type?: string | undefined;
  readonly gpus?: number | undefined;
}

/** Hosts as the fabric alone describes them: all of them, or those of `name`. */
export function hostsOfFabrics(
  fabrics: readonly FabricFile[],
  wanted: Wanted,
): readonly HostEntry[] {
  const known = byNames(fabrics);
  const names = wanted.name?.flatMap(namesIn) ?? [...known.keys()];
  const bare = names.map((name): HostEntry => {
    const host = known.get(name);
    return { name, gpus: gpusOf(name, host, wanted), type: typeOf(name, host, wanted) };
  });
  return withRacks(bare, fabrics);
}

function gpusOf(name: string, host: FabricHost | undefined, { gpus }: Wanted): number {
  const found = gpus ?? host?.gpus;
  if (found !== undefined) return found;
  throw new OrbweaverError(
    "BAD_INPUT",
    `a fabric does not say how many GPUs ${harmless(name)} has. Give --gpus, e.g. --gpus 8, or describe the hosts with --topology.`,
  );
}

function typeOf(name: string, host: FabricHost | undefined, { type }: Wanted): string {
  if (type !== undefined) return gpuTypeName(type);
  const found = gpuTypeOfDevice(host?.device ?? "");
  if (found !== undefined) return found;
  const what =
    host?.device === undefined
      ? `a fabric does not say which GPUs ${harmless(name)} has`
      : `${harmless(name)} has "${harmless(host.device)}", which is no well-known GPU type`;
  throw new OrbweaverError("BAD_INPUT", `${what}. Give --type, e.g. --type H100.`);
}
