/**
 * @file Reads Slurm's `topology.conf`: leaf switches (`SwitchName=… Nodes=…`) or blocks (`BlockName=… Nodes=…`) as racks.
 *
 * Keys in any case and order, `\` at the end of a line, comments, ranges of names with several brackets. A block is an NVLink domain and closer
 * than a switch, so blocks count where a file has both. Switches of switches are checked and not kept.
 */

import { byCodeUnit } from "../values/ids.ts";
import { cleanLines, refuseBySize } from "../values/text-lines.ts";
import { expandHosts } from "../values/host-range.ts";
import { refuse, type Problem } from "../values/problem.ts";
import { shown } from "../values/file-problem.ts";
import { rackName, type FabricHost, type ParsedFabric } from "./fabric-hosts.ts";

/** A switch or block, and what hangs at it. */
export interface Group {
  readonly line: number;
  readonly name: string;
  readonly nodes: readonly string[];
  readonly children: readonly string[];
}

interface Statement {
  readonly line: number;
  readonly values: ReadonlyMap<string, string>;
}

/** Of one name with its ranges, in files that tools write. */
const MAX_LIST_CHARS = 20_000;

const KEYS: ReadonlySet<string> = new Set([
  "switchname",
  "blockname",
  "nodes",
  "switches",
  "linkspeed",
  "blocksizes",
]);

export const isTopologyConf = (lines: readonly string[]): boolean =>
  lines.some((line) => /^[^#"]*\b(SwitchName|BlockName|BlockSizes)\s*=/i.test(line));

export function parseTopologyConf(
  text: string,
  { source }: { readonly source: string },
): ParsedFabric {
  const bySize = refuseBySize(text, source, { what: "topology.conf" });
  if (bySize !== undefined) return bySize;
  const problems: Problem[] = [];
  const switches: Group[] = [];
  const blocks: Group[] = [];
  for (const statement of statementsOf(cleanLines(text), problems)) {
    const { line, values } = statement;
    const own = values.get("switchname");
    const block = values.get("blockname");
    if (own === undefined && block === undefined) {
      if (values.has("blocksizes")) continue;
      const message = `${[...values.keys()].join(", ")} without SwitchName= or BlockName=`;
      problems.push({ line, message, remedy: "a line names a switch or a block" });
      continue;
    }
    if (own !== undefined && block !== undefined) {
      const message = `switch ${shown(own)} and block ${shown(block)} in one line`;
      problems.push({ line, message, remedy: "give each a line of its own" });
      continue;
    }
    const group = {
      line,
      name: own ?? block ?? "",
      nodes: hostList(values.get("nodes") ?? "", line, problems),
      children: hostList(values.get("switches") ?? "", line, problems),
    };
    (own === undefined ? blocks : switches).push(group);
  }
  const hosts = hostsOfGroups({ switches, blocks }, problems);
  if (problems.length > 0) return refuse(source, problems);
  return { kind: "parsed", fabric: { form: "topology.conf", hosts, notes: [] } };
}

/** Lines with their continuations as keys and values; keys in small letters. */
function statementsOf(lines: readonly string[], problems: Problem[]): Statement[] {
  const statements: Statement[] = [];
  let joined = "";
  let first = 0;
  // The empty line ends a statement that the last line would continue.
  for (const [index, raw] of [...lines, ""].entries()) {
    const line = raw.replace(/#.*$/, "").trimEnd();
    if (joined === "") first = index + 1;
    if (line.endsWith("\\")) {
      joined += `${line.slice(0, -1)} `;
      continue;
    }
    const whole = (joined + line).trim();
    joined = "";
    if (whole === "") continue;
    const values = new Map<string, string>();
    const parts = whole.replace(/\s*=\s*/g, "=").split(/\s+/);
    for (const part of parts) {
      const [key = "", value] = part.split("=", 2);
      const small = key.toLowerCase();
      if (value === undefined || !KEYS.has(small)) {
        const message = `${shown(part)} is no key of topology.conf with a value`;
        const remedy =
          "the keys are SwitchName, Nodes, Switches, LinkSpeed, BlockName and BlockSizes; ranges have no spaces";
        problems.push({ line: first, message, remedy });
      } else if (values.has(small)) {
        problems.push({
          line: first,
          message: `${key} stands twice in one line`,
          remedy: "keep one",
        });
      } else values.set(small, value.replace(/^"(.*)"$/, "$1"));
    }
    if (values.size > 0) statements.push({ line: first, values });
  }
  return statements;
}

/** Names of a Slurm list: commas outside brackets separate. */
export function hostList(text: string, line: number, problems: Problem[]): readonly string[] {
  const names: string[] = [];
  for (const part of text.split(/,(?![^[]*\])/)) {
    const plain = part.trim();
    if (plain === "") continue;
    const read = expandHosts(plain, MAX_LIST_CHARS);
    if (read.kind === "refused")
      problems.push({ line, message: read.message, remedy: read.remedy });
    else names.push(...read.value);
  }
  return names;
}

/** Hosts with the block, or else the leaf switch, that has them. */
export function hostsOfGroups(
  { switches, blocks }: { readonly switches: readonly Group[]; readonly blocks: readonly Group[] },
  problems: Problem[],
): readonly FabricHost[] {
  for (const groups of [switches, blocks]) checkNames(groups, problems);
  const known = new Set(switches.map(({ name }) => name));
  for (const { line, name, children, nodes } of switches) {
    const missing = children.find((child) => !known.has(child));
    if (missing !== undefined) {
      const message = `switch ${shown(name)} has switch ${shown(missing)}, which no line describes`;
      problems.push({
        line,
        message,
        remedy: "describe it with SwitchName= (switch: in YAML), or leave it out",
      });
    }
    if (children.length === 0 && nodes.length === 0) {
      const message = `switch ${shown(name)} has neither nodes nor switches`;
      problems.push({ line, message, remedy: "say what hangs at it, or leave it out" });
    }
  }
  const taken = blocks.length > 0 ? blocks : switches;
  const byHost = new Map<string, Group>();
  for (const group of taken) {
    for (const host of group.nodes) {
      const former = byHost.get(host);
      if (former === undefined) byHost.set(host, group);
      else {
        const message = `host ${shown(host)} is at ${shown(group.name)} and at ${shown(former.name)} (line ${former.line})`;
        problems.push({
          line: group.line,
          message,
          remedy: "a host has one leaf switch or block; keep one",
        });
      }
    }
  }
  if (byHost.size === 0 && problems.length === 0) {
    const message = "no switch and no block has a node";
    problems.push({
      line: 1,
      message,
      remedy: "give the file with the Nodes= (nodes: in YAML) of the leaf switches",
    });
  }
  return [...byHost].map(([name, group]) => ({ name, rack: rackName(group.name) }));
}

function checkNames(groups: readonly Group[], problems: Problem[]): void {
  const lines = new Map<string, Group>();
  for (const group of [...groups].sort((a, b) => a.line - b.line || byCodeUnit(a.name, b.name))) {
    const rack = rackName(group.name);
    const former = lines.get(rack);
    if (group.name === "") {
      problems.push({
        line: group.line,
        message: "a switch or block has no name",
        remedy: "name it",
      });
    } else if (former !== undefined) {
      const message = `${shown(group.name)} is described in line ${former.line}, too${former.name === group.name ? "" : ` (as ${shown(former.name)}, the same as a name of a rack)`}`;
      problems.push({ line: group.line, message, remedy: "describe each switch and block once" });
    } else lines.set(rack, group);
  }
}
