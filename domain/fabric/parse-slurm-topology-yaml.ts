/**
 * @file Reads Slurm's `topology.yaml` (25.05 and later): a list of topologies, of which one is taken, as `topology.conf` would be.
 *
 * Of several the one with `cluster_default: true` counts, else the first that has switches or blocks.
 */

import { readLocatedYaml } from "../file/located-yaml.ts";
import { refuse, type Problem } from "../values/problem.ts";
import { refuseBySize } from "../values/text-lines.ts";
import { shown, type ValuePath } from "../values/file-problem.ts";
import type { ParsedFabric } from "./fabric-hosts.ts";
import { hostList, hostsOfGroups, type Group } from "./parse-slurm-topology.ts";

const MAX_CHARS = 4 * 2 ** 20;

export const isTopologyYaml = (lines: readonly string[]): boolean =>
  lines.some((line) => /^\s*(-\s+)?(topology|cluster_default|tree|block|flat)\s*:/.test(line));

interface Desk {
  readonly lineOf: (path: ValuePath) => number;
  readonly problems: Problem[];
}

export function parseTopologyYaml(
  text: string,
  { source }: { readonly source: string },
): ParsedFabric {
  const bySize = refuseBySize(text, source, { what: "topology.yaml", maxChars: MAX_CHARS });
  if (bySize !== undefined) return bySize;
  const yaml = readLocatedYaml(text, source, {
    maxChars: MAX_CHARS,
    remedy: "give topology.yaml alone",
  });
  if (yaml.problems.length > 0) {
    const problems = yaml.problems.map(({ line = 1, column, message, remedy }) => ({
      line,
      ...(column !== undefined && { column }),
      message,
      remedy,
    }));
    return refuse(source, problems);
  }
  const problems: Problem[] = [];
  const desk: Desk = { lineOf: (path) => yaml.placeOf(path, "value").line, problems };
  const topologies = listAt(yaml.value, [], desk);
  const isTaken = (entry: unknown): boolean =>
    isMap(entry) && ("tree" in entry || "block" in entry);
  const byDefault = topologies.findIndex(
    (entry) => isMap(entry) && entry["cluster_default"] === true,
  );
  const at = byDefault === -1 ? topologies.findIndex(isTaken) : byDefault;
  const taken = topologies[at];
  if (!isMap(taken) || !isTaken(taken)) {
    const message =
      taken === undefined
        ? "no topology has a tree or a block"
        : `the default topology ${shown(isMap(taken) ? taken["topology"] : taken)} has neither a tree nor blocks`;
    const remedy =
      "flat and ring topologies say nothing of racks; give one with `tree:` or `block:`";
    problems.push({ line: desk.lineOf([at === -1 ? 0 : at]), message, remedy });
    return refuse(source, problems);
  }
  const switches = groupsIn(
    taken["tree"],
    { path: [at, "tree"], list: "switches", name: "switch" },
    desk,
  );
  const blocks = groupsIn(
    taken["block"],
    { path: [at, "block"], list: "blocks", name: "block" },
    desk,
  );
  const hosts = hostsOfGroups({ switches, blocks }, problems);
  if (problems.length > 0) return refuse(source, problems);
  const others = topologies.length - 1;
  const name =
    isMap(taken) && typeof taken["topology"] === "string" ? taken["topology"] : "the first";
  const notes =
    others === 0
      ? []
      : [`topology ${shown(name)} was taken; ${others} more of the file were left out`];
  return { kind: "parsed", fabric: { form: "topology.yaml", hosts, notes } };
}

function groupsIn(
  part: unknown,
  keys: { readonly path: ValuePath; readonly list: string; readonly name: string },
  desk: Desk,
): readonly Group[] {
  if (part === undefined || part === null) return [];
  const listPath = [...keys.path, keys.list];
  const list = isMap(part) ? part[keys.list] : undefined;
  return listAt(list, listPath, desk).flatMap((entry, index): Group[] => {
    const own = [...listPath, index];
    const name = isMap(entry) ? entry[keys.name] : undefined;
    if (!isMap(entry) || (typeof name !== "string" && typeof name !== "number")) {
      const message = `an entry of ${keys.list} has no name under ${shown(`${keys.name}:`)}`;
      desk.problems.push({
        line: desk.lineOf(own),
        message,
        remedy: `write it as - ${keys.name}: s1`,
      });
      return [];
    }
    return [
      {
        line: desk.lineOf([...own, keys.name]),
        name: String(name),
        nodes: namesAt(entry["nodes"], [...own, "nodes"], desk),
        children: namesAt(entry["children"], [...own, "children"], desk),
      },
    ];
  });
}

/** A text in Slurm's notation, or a list of such texts. */
function namesAt(value: unknown, path: ValuePath, desk: Desk): readonly string[] {
  if (value === undefined || value === null) return [];
  const texts = Array.isArray(value) ? (value as readonly unknown[]) : [value];
  return texts.flatMap((text, index) => {
    const line = desk.lineOf(Array.isArray(value) ? [...path, index] : path);
    if (typeof text === "string" || typeof text === "number") {
      return hostList(String(text), line, desk.problems);
    }
    desk.problems.push({
      line,
      message: `${shown(text)} is no list of names`,
      remedy: "write names as node[01-16]",
    });
    return [];
  });
}

function listAt(value: unknown, path: ValuePath, desk: Desk): readonly unknown[] {
  if (Array.isArray(value)) return value as readonly unknown[];
  const where = path.length === 0 ? "the document" : shown(String(path.at(-1)));
  desk.problems.push({
    line: desk.lineOf(path),
    message: `${where} is no list`,
    remedy: "topology.yaml is a list of topologies, each with the list of its switches or blocks",
  });
  return [];
}

const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
