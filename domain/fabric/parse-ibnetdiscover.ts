/**
 * @file Reads the output of `ibnetdiscover`, or of `ibnetdiscover -p`: the leaf switches of each host, and from them racks.
 *
 * Hosts are told by the descriptions of their adapters ("node12 mlx5_0", "node12 HCA-1"). In a rail-optimised fabric each adapter of a host
 * hangs at a leaf switch of its own, and the hosts of one unit have the same switches. So hosts that share half of the leaf switches of the one
 * that has fewer, or more, are one rack, called by the first of its switches. Adapters that were never named, and the switches' own, are counted
 * and left out. Cost: linear in the lines, and in pairs of different sets of switches.
 */

import { byCodeUnit } from "../values/ids.ts";
import { cleanLines, refuseBySize } from "../values/text-lines.ts";
import { refuse, type Problem } from "../values/problem.ts";
import { shown } from "../values/file-problem.ts";
import { rackName, type FabricHost, type ParsedFabric } from "./fabric-hosts.ts";

const SWITCH = /^Switch\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"/;
const ADAPTER = /^(?:Ca|Rt|Hca)\s+\d+\s+"([^"]+)"\s*#\s*"([^"]*)"/;
const NODE = /^(Switch|Ca|Rt|Hca)\b/;
/** A port, the node at its other end, and that node's description (behind a switch's port) or a switch's (behind an adapter's). */
const PORT = /^\[\d+\](?:\([\da-fA-F]+\))?\s+"([^"]+)"\[\d+\](?:\([\da-fA-F]+\))?\s*#\s*(.*)$/;
/** `-p`: type, lid, port, GUID, speed of one end, then the other end, then both descriptions: 64 bytes each, apostrophes among them. */
const PORT_LIST =
  /^(CA|SW|RT)\s+\d+\s+\d+\s+0x([\da-f]+)\s+.*?\s-\s+(CA|SW|RT)\s+\d+\s+\d+\s+0x([\da-f]+)\s+\(\s*'(.{0,64}?)'\s+-\s+'(.{0,64})'\s*\)$/i;
/** One end alone; a line that has another end and is no `PORT_LIST` is damaged. */
const UNCONNECTED =
  /^(CA|SW|RT)\s+\d+\s+\d+\s+0x[\da-f]+\s+(?!.*?\s-\s+(?:CA|SW|RT)\s+\d+\s+\d+\s+0x)/i;
const PREAMBLE =
  /^(vendid|devid|sysimgguid|switchguid|caguid|rtguid|hcaguid)=|^(DDR|Chassis|Spine|Line)\b/i;

/** A host and one of its adapters, as drivers and fabric managers describe them. */
const DESCRIPTION =
  /^([A-Za-z0-9][\w.-]*)(?:\s+(?:HCA-?\d+|[a-z][\w]*_\d+|ib\d+|ibp[\w]+|mlx\d+[\w]*|hfi\d+[\w]*|rdma[\w]+|ibs?[\w]+))?$/i;
const NO_HOST = /^(localhost|\(none\)|none|unknown|MT\d+|Mellanox|Quantum|ConnectX|NVIDIA|Node)$/i;

export const isIbnetdiscover = (lines: readonly string[]): boolean =>
  lines.some((line) => SWITCH.test(line) || ADAPTER.test(line) || PORT_LIST.test(line)) ||
  lines.some((line) => /Topology file: generated on/.test(line));

interface Links {
  /** Names of switches by GUID. */
  readonly switches: Map<string, string>;
  /** GUIDs of leaf switches by host. */
  readonly leaves: Map<string, Set<string>>;
  readonly nameless: Set<string>;
}

export function parseIbnetdiscover(
  text: string,
  { source }: { readonly source: string },
): ParsedFabric {
  const bySize = refuseBySize(text, source, { what: "the output of ibnetdiscover" });
  if (bySize !== undefined) return bySize;
  const problems: Problem[] = [];
  const found = readLinks(cleanLines(text), problems);
  if (problems.length > 0) return refuse(source, problems);
  if (found.leaves.size === 0) {
    const message =
      found.nameless.size === 0
        ? "no switch has a host at one of its ports"
        : `none of ${found.nameless.size} adapters names its host`;
    const remedy =
      'run ibnetdiscover on the whole fabric; adapters are described by their host, as "node12 mlx5_0" (rdma-ndd sets it)';
    return refuse(source, [{ line: 1, message, remedy }]);
  }
  const notes =
    found.nameless.size === 0
      ? []
      : [
          `${found.nameless.size} adapters name no host (a default description, or a switch's own) and were left out`,
        ];
  return { kind: "parsed", fabric: { form: "ibnetdiscover", hosts: racksOf(found), notes } };
}

function readLinks(lines: readonly string[], problems: Problem[]): Links {
  const links: Links = { switches: new Map(), leaves: new Map(), nameless: new Set() };
  let node:
    { readonly guid: string; readonly isSwitch: boolean; readonly description: string } | undefined;
  for (const [index, raw] of lines.entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#") || PREAMBLE.test(line)) continue;
    const refuseLine = (message: string, remedy: string): void => {
      problems.push({ line: index + 1, message, remedy });
    };
    const listed = PORT_LIST.exec(line);
    if (listed !== null) {
      const [, kind = "", guid = "", otherKind = "", otherGuid = "", name = "", otherName = ""] =
        listed;
      join(links, end(kind, guid, name), end(otherKind, otherGuid, otherName));
      continue;
    }
    if (UNCONNECTED.test(line)) continue;
    if (NODE.test(line)) {
      const asSwitch = SWITCH.exec(line);
      const [, guid, description = ""] = asSwitch ?? ADAPTER.exec(line) ?? [];
      if (guid === undefined) {
        refuseLine(
          `a node is written ${shown(line)}`,
          'a node is written as Switch 65 "S-2c5e…" # "leaf-1" …; copy the output again, whole',
        );
        continue;
      }
      node = { guid, isSwitch: asSwitch !== null, description };
      if (node.isSwitch) links.switches.set(guid, switchName(description, guid));
      continue;
    }
    const [, otherGuid, rest = ""] = PORT.exec(line) ?? [];
    if (otherGuid === undefined) {
      refuseLine(
        `${shown(line)} is no port and no node`,
        'a port is written as [1] "H-e09d…"[1](e09d…) # "node12 mlx5_0" lid 647 4xNDR; copy the output again, whole',
      );
    } else if (node === undefined) {
      refuseLine(
        "a port stands before the first node",
        "copy the output again, from its beginning",
      );
    } else {
      const [, quoted = ""] = /"([^"]*)"/.exec(rest) ?? [];
      const isSwitch = otherGuid.startsWith("S-");
      const own = { guid: node.guid, isSwitch: node.isSwitch, description: node.description };
      join(links, own, { guid: otherGuid, isSwitch, description: quoted });
    }
    if (problems.length > 20) break;
  }
  return links;
}

interface End {
  readonly guid: string;
  readonly isSwitch: boolean;
  readonly description: string;
}

const end = (kind: string, guid: string, description: string): End => ({
  guid: guid.toLowerCase(),
  isSwitch: kind.toUpperCase() === "SW",
  description,
});

/** Notes a host at a switch; cables between switches say nothing of hosts. */
function join(links: Links, a: End, b: End): void {
  if (a.isSwitch === b.isSwitch) return;
  const [leaf, adapter] = a.isSwitch ? [a, b] : [b, a];
  if (!links.switches.has(leaf.guid))
    links.switches.set(leaf.guid, switchName(leaf.description, leaf.guid));
  const host = hostOf(adapter.description);
  if (host === undefined) {
    links.nameless.add(adapter.guid);
    return;
  }
  const leaves = links.leaves.get(host) ?? new Set<string>();
  links.leaves.set(host, leaves.add(leaf.guid));
}

function hostOf(description: string): string | undefined {
  const [, name] = DESCRIPTION.exec(description.trim().replaceAll("'", "")) ?? [];
  return name === undefined || NO_HOST.test(name) ? undefined : name;
}

/** `MF0;leaf-1:MQM9701/U1` is leaf-1. */
function switchName(description: string, guid: string): string {
  const [, managed] = /^[^;]*;([^:;]+)(?::.*)?$/.exec(description) ?? [];
  const name = managed ?? description.trim();
  return name === "" || /Mellanox|Infiniscale|Quantum/i.test(name)
    ? guid.replace(/^S-/, "switch-")
    : name;
}

interface Rack {
  readonly leaves: Set<string>;
  readonly hosts: string[];
}

function racksOf({ switches, leaves }: Links): readonly FabricHost[] {
  const named = new Map([...leaves].map(([host, guids]) => [host, [...guids].sort(byCodeUnit)]));
  const bySet = new Map<string, Rack>();
  for (const [host, guids] of named) {
    const key = guids.join(" ");
    const rack = bySet.get(key) ?? { leaves: new Set(guids), hosts: [] };
    rack.hosts.push(host);
    bySet.set(key, rack);
  }
  // Whole sets first, so that a host with a missing cable joins those that have all.
  const inTurn = [...bySet.entries()].sort(
    ([aKey, a], [bKey, b]) =>
      b.leaves.size - a.leaves.size || b.hosts.length - a.hosts.length || byCodeUnit(aKey, bKey),
  );
  const racks: Rack[] = [];
  for (const [, found] of inTurn) {
    const home = racks.find((rack) => overlap(rack.leaves, found.leaves) * 2 >= found.leaves.size);
    if (home === undefined) racks.push(found);
    else home.hosts.push(...found.hosts);
  }
  const rackOf = new Map<string, string>();
  const taken = new Set<string>();
  for (const rack of racks) {
    const name = freeName(rack, switches, taken);
    taken.add(name);
    for (const host of rack.hosts) rackOf.set(host, name);
  }
  return [...named.keys()].map((name) => ({ name, rack: rackOf.get(name) ?? "rack" }));
}

function freeName(
  { leaves }: Rack,
  switches: Links["switches"],
  taken: ReadonlySet<string>,
): string {
  const names = [...leaves].map((guid) => rackName(switches.get(guid) ?? guid)).sort(byCodeUnit);
  const free = names.find((name) => !taken.has(name));
  if (free !== undefined) return free;
  let count = 2;
  while (taken.has(`${names[0] ?? "rack"}-${count}`)) count += 1;
  return `${names[0] ?? "rack"}-${count}`;
}

function overlap(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let shared = 0;
  for (const each of b) if (a.has(each)) shared += 1;
  return shared;
}
