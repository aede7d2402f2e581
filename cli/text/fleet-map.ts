/**
 * @file A fleet as text: each GPU one character, hosts in a grid, tenants with their use of quotas.
 *
 * `#` leased · `~` its job has ended, the host has not confirmed yet · `.` free · `x` free, and drained with its host or by itself · `?` free on a
 * host without an agent · `k` free, and kept for a gang that has lost a host · `r` free, and reserved for a job that waits for more, or for the headroom · on a silent host `%` leased and `!` free · `|` free on a fenced host.
 */

import type { Ledger } from "../../client/index.ts";
import type { ClusterShape, HostShape, TenantRule } from "../../domain/fleet/fleet.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { quotaUse, type QuotaUse } from "../../scheduling/explain/quota-use.ts";
import { drainedMask } from "../../scheduling/ledger/rules/gpu-drains.ts";
import { hostConditionOf, type HostCondition } from "../../scheduling/ledger/rules/grant-check.ts";
import { takenGpus } from "../../scheduling/ledger/rules/usage.ts";
import type { Colours } from "../terminal/colour.ts";
import { counted } from "../terminal/duration.ts";
import { tableText, type Column } from "../terminal/table.ts";

export interface GpuCounts {
  readonly total: number;
  readonly held: number;
  readonly vacating: number;
  readonly free: number;
  readonly drained: number;
  readonly agentless: number;
  /** Free, on hosts that are silent. */
  readonly silent: number;
  /** Of the leased GPUs: on silent hosts. */
  readonly heldSilent: number;
  readonly fenced: number;
  /** Of a gang that has lost a host: nobody runs there, and others may not. */
  readonly kept: number;
  /** Of the free: for a job that waits for more GPUs, or for the headroom; of others at most jobs that end in time get them. */
  readonly reserved: number;
}

interface HostState {
  readonly shape: HostShape;
  readonly map: string;
}

interface Layout {
  readonly width: number;
  readonly colours: Colours;
}

export function fleetText(name: string, ledger: Ledger, layout: Layout): string {
  const states = hostStates(ledger);
  const counts = countGpus([...states.values()]);
  const clusters = ledger.shape.clusters.map((cluster) => clusterText(cluster, states, layout));
  return [
    folded(`fleet ${name}: ${countsText(counts)}; ${waitingText(ledger)}`, layout.width),
    `${LEGEND}${counts.kept > 0 ? "  k kept" : ""}${counts.reserved > 0 ? "  r reserved" : ""}`,
    ...(counts.silent + counts.heldSilent + counts.fenced > 0 ? [SILENCE_LEGEND] : []),
    ...clusters.map((text) => `\n${text}`),
    `\n${tenantsText(ledger, layout)}`,
  ].join("\n");
}

export function fleetCounts(ledger: Ledger): GpuCounts {
  return countGpus([...hostStates(ledger).values()]);
}

const LEGEND = "GPUs: # held  ~ vacating  . free  x drained  ? no agent";
/** Only where the number is not zero. */
const SILENCE_LEGEND = "      on silent hosts: % held  ! free; on fenced hosts: |";

function hostStates(ledger: Ledger): ReadonlyMap<HostId, HostState> {
  const held = new Map<HostId, number>();
  const vacating = new Map<HostId, number>();
  for (const lease of ledger.leases.values()) {
    const masks = lease.state === "vacating" ? vacating : held;
    for (const { host, mask } of takenGpus(lease)) masks.set(host, (masks.get(host) ?? 0) | mask);
  }
  const kept = new Map<HostId, number>();
  const reserved = new Map<HostId, number>();
  for (const { kind, gpus } of ledger.reservations?.values() ?? []) {
    const masks = kind === "replace" ? kept : reserved;
    for (const { host, mask } of gpus) masks.set(host, (masks.get(host) ?? 0) | mask);
  }
  const hosts = ledger.shape.clusters.flatMap((cluster) => cluster.hosts);
  return new Map(
    hosts.map((shape) => {
      const status = ledger.hosts.get(shape.id);
      const isSilent = status?.silentSinceMs !== undefined;
      const drained = drainedMask(status);
      const idle = IDLE_SIGNS[hostConditionOf(status) ?? "none"];
      const map = Array.from({ length: shape.gpuCount }, (_, gpu) => {
        if ((((held.get(shape.id) ?? 0) >>> gpu) & 1) === 1) return isSilent ? "%" : "#";
        if ((((vacating.get(shape.id) ?? 0) >>> gpu) & 1) === 1) return "~";
        if (idle !== ".") return idle;
        if (((drained >>> gpu) & 1) === 1) return "x";
        if ((((kept.get(shape.id) ?? 0) >>> gpu) & 1) === 1) return "k";
        return (((reserved.get(shape.id) ?? 0) >>> gpu) & 1) === 1 ? "r" : idle;
      });
      return [shape.id, { shape, map: map.join("") }] as const;
    }),
  );
}

const IDLE_SIGNS: Readonly<Record<HostCondition | "none", string>> = {
  none: ".",
  drained: "x",
  agentless: "?",
  silent: "!",
  fenced: "|",
};

function countGpus(hosts: readonly HostState[]): GpuCounts {
  const all = hosts.map(({ map }) => map).join("");
  const count = (sign: string): number => all.split(sign).length - 1;
  return {
    total: all.length,
    held: count("#") + count("%"),
    vacating: count("~"),
    free: count(".") + count("r"),
    drained: count("x"),
    agentless: count("?"),
    silent: count("!"),
    heldSilent: count("%"),
    fenced: count("|"),
    kept: count("k"),
    reserved: count("r"),
  };
}

function countsText(counts: GpuCounts): string {
  const { total, held, vacating, free, drained, agentless, silent, heldSilent, fenced, kept } =
    counts;
  const { reserved } = counts;
  const rest = [
    `${String(held)} held${heldSilent > 0 ? ` (${String(heldSilent)} silent)` : ""}`,
    `${String(free)} free${reserved > 0 ? ` (${String(reserved)} reserved)` : ""}`,
    ...(kept > 0 ? [`${String(kept)} kept`] : []),
    ...(vacating > 0 ? [`${String(vacating)} vacating`] : []),
    ...(drained > 0 ? [`${String(drained)} drained`] : []),
    ...(agentless > 0 ? [`${String(agentless)} without agent`] : []),
    ...(silent > 0 ? [`${String(silent)} silent`] : []),
    ...(fenced > 0 ? [`${String(fenced)} fenced`] : []),
  ];
  return `${counted(total, "GPU")}, ${rest.join(", ")}`;
}

function waitingText({ requests }: Ledger): string {
  return requests.size === 0 ? "no job waits" : `${counted(requests.size, "job")} waiting`;
}

function clusterText(
  cluster: ClusterShape,
  states: ReadonlyMap<HostId, HostState>,
  { width, colours }: Layout,
): string {
  const hosts = cluster.hosts.flatMap(({ id }) => states.get(id) ?? []);
  const facts = [
    `${cluster.site}, ${cluster.jurisdiction}`,
    ...new Set(
      cluster.hosts.map(({ gpuType, gpuMemoryGiB }) => `${gpuType} ${String(gpuMemoryGiB)} GiB`),
    ),
    ...(cluster.fabricGbps === undefined ? [] : [`${String(cluster.fabricGbps)} Gbps`]),
    ...(cluster.isSimulated ? ["simulated"] : []),
  ];
  const title = folded(
    `${cluster.id} (${facts.join(", ")}): ${countsText(countGpus(hosts))}`,
    width,
  );
  return `${colours.bold(cluster.id)}${title.slice(cluster.id.length)}\n${hostGrid(hosts, { width, colours })}`;
}

/** Breaks a line that is too long after a comma, colon or semicolon. */
function folded(text: string, width: number): string {
  const lines: string[] = [];
  let line = "";
  for (const part of text.split(/(?<=[,:;]) /)) {
    const longer = line === "" ? part : `${line} ${part}`;
    if (line !== "" && longer.length > width) {
      lines.push(line);
      line = `${FOLD_INDENT}${part}`;
    } else line = longer;
  }
  return [...lines, line].join("\n");
}

const FOLD_INDENT = "    ";

/** As many hosts in a line as fit, all cells of equal width. */
function hostGrid(hosts: readonly HostState[], { width, colours }: Layout): string {
  const nameOf = ({ shape }: HostState): string => shape.id.slice(shape.id.indexOf("/") + 1);
  const nameWidth = Math.max(...hosts.map((host) => nameOf(host).length));
  const mapWidth = Math.max(...hosts.map(({ map }) => map.length));
  const cellWidth = nameWidth + 1 + mapWidth;
  const perLine = Math.max(
    1,
    Math.floor((width - INDENT.length + GAP.length) / (cellWidth + GAP.length)),
  );
  const lines: string[] = [];
  for (let at = 0; at < hosts.length; at += perLine) {
    const cells = hosts.slice(at, at + perLine).map((host) => {
      const map = host.map.padEnd(mapWidth);
      return `${nameOf(host).padEnd(nameWidth)} ${coloured(map, colours)}`;
    });
    lines.push(`${INDENT}${cells.join(GAP)}`.trimEnd());
  }
  return lines.join("\n");
}

const INDENT = "  ";
const GAP = "   ";

function coloured(map: string, colours: Colours): string {
  if (!colours.isColorSupported) return map;
  return map.replace(/#+|~+|\.+|x+|\?+|%+|!+|\|+/g, (run) => {
    switch (run[0]) {
      case "#":
        return colours.green(run);
      case "~":
      case "%":
        return colours.yellow(run);
      case "x":
      case "?":
      case "!":
      case "|":
        return colours.red(run);
      default:
        return colours.dim(run);
    }
  });
}

const TENANT_COLUMNS: readonly Column[] = [
  { title: "TENANT", least: 8 },
  { title: "WEIGHT", isRight: true },
  { title: "HELD", isRight: true },
  { title: "WANTED", isRight: true },
  { title: "USE OF QUOTA", least: 12 },
];

/** Tenants with a rule of their own, and those that have leases or requests. */
function tenantsText(ledger: Ledger, { width }: Layout): string {
  const { shape, leases, requests } = ledger;
  const held = new Map<string, number>();
  for (const lease of leases.values())
    for (const { mask } of takenGpus(lease))
      held.set(lease.tenant, (held.get(lease.tenant) ?? 0) + popCount(mask));
  const wanted = new Map<string, number>();
  for (const { tenant, gang } of requests.values()) {
    wanted.set(tenant, (wanted.get(tenant) ?? 0) + gang.gpus);
  }
  const rules = new Map<string, TenantRule>(shape.tenants.map((rule) => [rule.id, rule]));
  const names = [...new Set([...rules.keys(), ...held.keys(), ...wanted.keys()])];
  if (names.length === 0) return "no tenant holds or wants anything";
  const quotas = quotaUse(ledger);
  const rows = names.map((name) => [
    name,
    String(rules.get(name)?.weight ?? 1),
    String(held.get(name) ?? 0),
    String(wanted.get(name) ?? 0),
    quotaText(quotas.filter(({ tenant }) => tenant === name)),
  ]);
  return tableText(TENANT_COLUMNS, rows, width);
}

/** `H100 12/16, others 0/8, up to 4 more borrowed`: those of one tenant. */
function quotaText(quotas: readonly QuotaUse[]): string {
  const [first] = quotas;
  if (first === undefined) return "no quota";
  const { borrowingLimit } = first;
  return [
    ...quotas.map(
      ({ gpuType, usedGpus, nominalGpus }) =>
        `${gpuType === "*" ? "others" : gpuType} ${String(usedGpus)}/${String(nominalGpus)}`,
    ),
    ...(borrowingLimit > 0 ? [`up to ${String(borrowingLimit)} more borrowed`] : []),
  ].join(", ");
}
