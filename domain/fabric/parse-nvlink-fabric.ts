/**
 * @file Reads the fabric section of `nvidia-smi -q` (or `-q -x`): in which NVLink domain the GPUs of a host are.
 *
 * GPUs of one ClusterUUID and one CliqueId reach each other over NVLink across hosts, such as the 72 of a GB200 NVL72 rack. A host in such a domain gets
 * a rack of that name. A ClusterUUID of zeros, or no fabric, means NVLink inside the host alone. One output is one host, unless the lines have prefixes of a
 * parallel shell ("node1: ").
 */

import { cleanLines, refuseBySize } from "../values/text-lines.ts";
import { parseXml, type XmlElement } from "../file/xml-elements.ts";
import { refuse, type Problem } from "../values/problem.ts";
import { shown } from "../values/file-problem.ts";
import type { FabricHost, ParsedFabric } from "./fabric-hosts.ts";

/** What one GPU says. */
interface GpuFabric {
  readonly line: number;
  device?: string;
  state?: string;
  clique?: string;
  cluster?: string;
}

const GPU_LINE = /^GPU\s+([\da-f]{2,8}:[\da-f:.]+)\s*$/i;
const FIELD = /^(\s*)([A-Za-z][^:]*?)\s*:\s*(.*?)\s*$/;
/** A parallel shell's prefix; nvidia-smi has spaces before its colons. */
const HOST_PREFIX = /^([A-Za-z0-9][\w.-]*): ?/;
const NOWHERE = /^(0{8}-(0{4}-){3}0{12}|N\/A|)$/i;

export const isNvidiaSmiQuery = (lines: readonly string[]): boolean =>
  lines.some((line) =>
    /NVSMI LOG|<nvidia_smi_log>|^\s*(\S+: ?\s*)?(ClusterUUID|CliqueId)\s*:/i.test(line),
  );

/** Whether the host's name is not in the text, but has to be given. */
export const isOfOneHost = (lines: readonly string[]): boolean =>
  isNvidiaSmiQuery(lines) && !hasPrefixes(lines);

export function parseNvlinkFabric(
  text: string,
  { source, host }: { readonly source: string; readonly host: string },
): ParsedFabric {
  const bySize = refuseBySize(text, source, { what: "the output of nvidia-smi -q" });
  if (bySize !== undefined) return bySize;
  const problems: Problem[] = [];
  const byHost = /^\ufeff?\s*</.test(text)
    ? new Map([[host, gpusOfXml(text, problems)]])
    : gpusOfText(cleanLines(text), host);
  const hosts = [...byHost].map(([name, gpus]) => hostOf(name, gpus, problems));
  if (problems.length > 0) return refuse(source, problems);
  const alone = hosts.filter(({ rack }) => rack === undefined).map(({ name }) => name);
  const notes =
    alone.length === 0
      ? []
      : [
          `${alone.slice(0, 3).join(", ")}${alone.length > 3 ? ", …" : ""}: in no NVLink domain over hosts`,
        ];
  return { kind: "parsed", fabric: { form: "nvidia-smi -q", hosts, notes } };
}

function hasPrefixes(lines: readonly string[]): boolean {
  const written = lines.filter((line) => line.trim() !== "");
  const prefixed = written.filter((line) => HOST_PREFIX.test(line)).length;
  return prefixed * 10 >= written.length * 9;
}

function gpusOfText(lines: readonly string[], host: string): Map<string, GpuFabric[]> {
  const isOfMany = hasPrefixes(lines);
  const byHost = new Map<string, GpuFabric[]>();
  const section = new Map<string, { isInside: boolean; indent: number }>();
  for (const [index, raw] of lines.entries()) {
    const [prefix = "", name = host] = isOfMany ? (HOST_PREFIX.exec(raw) ?? []) : [];
    const line = raw.slice(prefix.length);
    if (line.trim() === "") continue;
    const gpus = byHost.get(name) ?? [];
    byHost.set(name, gpus);
    if (GPU_LINE.test(line.trim())) {
      gpus.push({ line: index + 1 });
      section.delete(name);
      continue;
    }
    const gpu = gpus.at(-1);
    const indent = line.length - line.trimStart().length;
    const at = section.get(name);
    if (/^Fabric\s*$/.test(line.trim())) {
      section.set(name, { isInside: true, indent });
      continue;
    }
    if (at !== undefined && indent <= at.indent) section.delete(name);
    const [, , key = "", value = ""] = FIELD.exec(line) ?? [];
    if (gpu !== undefined) note(gpu, { key, value, isInside: section.has(name) });
  }
  return byHost;
}

function note(
  gpu: GpuFabric,
  {
    key,
    value,
    isInside,
  }: { readonly key: string; readonly value: string; readonly isInside: boolean },
): void {
  if (/^Product Name$/i.test(key)) gpu.device ??= value;
  if (!isInside) return;
  if (/^State$/i.test(key)) gpu.state ??= value;
  if (/^Clique\s?Id$/i.test(key)) gpu.clique ??= value;
  if (/^Cluster\s?UUID$/i.test(key)) gpu.cluster ??= value;
}

function gpusOfXml(text: string, problems: Problem[]): GpuFabric[] {
  const parsed = parseXml(text.replace(/^\ufeff/, ""));
  if (parsed.kind === "refused") {
    problems.push(parsed.problem);
    return [];
  }
  const childOf = (element: XmlElement | undefined, name: string): XmlElement | undefined =>
    element?.children.find((child) => child.name.toLowerCase() === name);
  return parsed.root.children
    .filter(({ name }) => name === "gpu")
    .map((gpu) => {
      const fabric = childOf(gpu, "fabric");
      const textOf = (name: string): string | undefined => childOf(fabric, name)?.text;
      const device = childOf(gpu, "product_name")?.text;
      const [state, clique, cluster] = [textOf("state"), textOf("cliqueid"), textOf("clusteruuid")];
      return {
        line: fabric?.line ?? gpu.line,
        ...(device !== undefined && { device }),
        ...(state !== undefined && { state }),
        ...(clique !== undefined && { clique }),
        ...(cluster !== undefined && { cluster }),
      };
    });
}

function hostOf(name: string, gpus: readonly GpuFabric[], problems: Problem[]): FabricHost {
  const [first] = gpus;
  if (first === undefined) {
    if (problems.length === 0) {
      const message = `${shown(name)} lists no GPU`;
      problems.push({
        line: 1,
        message,
        remedy: "give the whole output of nvidia-smi -q, or of nvidia-smi -q -x",
      });
    }
    return { name };
  }
  const domains = gpus.map((gpu) => domainOf(gpu, problems));
  const at = domains.findIndex((domain) => domain !== domains[0]);
  if (at !== -1 && problems.length === 0) {
    const message = `GPU ${at} of ${shown(name)} is in ${domains[at] ?? "no NVLink domain"}, GPU 0 in ${domains[0] ?? "none"}`;
    const remedy =
      "all GPUs of a host are in one NVLink domain; look at the fabric manager, then ask again";
    problems.push({ line: gpus[at]?.line ?? 1, message, remedy });
  }
  const [rack] = domains;
  return {
    name,
    gpus: gpus.length,
    ...(rack !== undefined && { rack }),
    ...(first.device !== undefined && { device: first.device }),
  };
}

/** The name of the NVLink domain over hosts; absent where there is none. */
function domainOf(gpu: GpuFabric, problems: Problem[]): string | undefined {
  const { line, state = "N/A", clique = "", cluster = "" } = gpu;
  if (/^(In Progress|Not Started)$/i.test(state)) {
    const message = `the fabric of a GPU is ${shown(state)}`;
    problems.push({ line, message, remedy: "wait until its State is Completed, then ask again" });
    return undefined;
  }
  if (NOWHERE.test(cluster)) return undefined;
  const isUuid = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(cluster);
  if (!isUuid || !/^\d+$/.test(clique)) {
    const message = `ClusterUUID is ${shown(cluster)} and CliqueId ${shown(clique)}`;
    problems.push({
      line,
      message,
      remedy: "both are as nvidia-smi -q prints them: a UUID, and a number",
    });
    return undefined;
  }
  return `nvl-${cluster.toLowerCase()}-${clique}`;
}
