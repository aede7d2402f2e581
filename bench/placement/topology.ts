/**
 * @file Clusters and links for the bench: drawn, out of a fleet file, or out of a table of measured pairs of regions.
 *
 * Drawn links are irregular: a random tree joins all clusters, further pairs are linked with a probability, and widths are drawn evenly from 1 to
 * 25 Gb/s, every fifth one of few values so that equals occur. A table counts the mean of what was measured between two regions.
 */

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { cellReader, decimal, missingColumn, readCsv } from "../../domain/values/csv.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { Link } from "../../domain/fleet/fleet.ts";
import { byCodeUnit, clusterId } from "../../domain/values/ids.ts";
import { problemText } from "../../domain/values/problem.ts";
import { gbps, ms } from "../../domain/values/units.ts";
import { readFleet } from "../../cli/command/fleet-files.ts";
import type { Random } from "../../lib/random.ts";
import { openLinkGraph, type LinkGraph } from "../../scheduling/placement/link-graph.ts";

export interface Topology {
  readonly name: string;
  readonly graph: LinkGraph;
  /** GPUs of each cluster. */
  readonly gpus: readonly number[];
}

export interface Drawn {
  readonly name: string;
  readonly gpus: readonly number[];
  /** Of a pair that the tree does not join. */
  readonly linked: number;
  readonly widestGbps: number;
  /** All links have that width. */
  readonly isEven?: boolean;
}

const FEW_WIDTHS = [1, 5, 10] as const;

export function drawnTopology(drawn: Drawn, random: Random): Topology {
  const { name, gpus, linked, widestGbps, isEven = false } = drawn;
  const ids = gpus.map((_, at) => clusterId(`c${String(at)}`));
  const links: Link[] = [];
  for (const [to, id] of ids.entries()) {
    const parent = to === 0 ? -1 : random.below(to);
    for (const [from, other] of ids.slice(0, to).entries()) {
      if (from !== parent && random.unit() >= linked) continue;
      const few = FEW_WIDTHS[random.below(FEW_WIDTHS.length)] ?? 1;
      const any = 1 + random.unit() * (widestGbps - 1);
      const drawnWidth = random.unit() < 0.2 ? Math.min(few, widestGbps) : any;
      const width = isEven ? widestGbps : drawnWidth;
      links.push({ from: other, to: id, bandwidthGbps: gbps(width), latencyMs: ms(1) });
    }
  }
  return { name, graph: openLinkGraph(ids, links), gpus };
}

export function fleetTopology(file: string): Topology {
  const { shape } = readFleet(file, process.cwd());
  const ids = shape.clusters.map(({ id }) => id);
  const gpus = shape.clusters.map(({ hosts }) =>
    hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0),
  );
  return checked({ name: file, graph: openLinkGraph(ids, shape.links), gpus });
}

/** Columns by the names that the known tables have. */
const COLUMNS = {
  from: ["src_region", "region_a", "src", "from"],
  to: ["dst_region", "region_b", "dst", "dest", "to"],
  gbps: ["bandwidth_gbps"],
  bps: ["throughput_received", "throughput_received_bps", "throughput_sent", "throughput_sent_bps"],
} as const;

export function tableTopology(file: string, gpusEach: number): Topology {
  const table = readCsv(textOf(file));
  const columnOf = (names: readonly string[]): string | undefined =>
    names.find((name) => table.header.includes(name));
  const from = columnOf(COLUMNS.from);
  const to = columnOf(COLUMNS.to);
  const wide = columnOf(COLUMNS.gbps);
  const bits = columnOf(COLUMNS.bps);
  if (from === undefined || to === undefined || (wide ?? bits) === undefined) {
    const needed = ["src_region", "dst_region", "throughput_received"];
    const problem = missingColumn(table, needed) ?? { line: 1, message: "", remedy: "" };
    throw badInput(problemText(file, problem));
  }
  const cell = cellReader(table);
  const sums = new Map<string, { from: string; to: string; gbps: number; rows: number }>();
  for (const row of table.rows) {
    const own = decimal(cell(row, wide ?? bits ?? ""));
    if (own === undefined || own < 0)
      throw badInput(
        `${file} line ${String(row.line)}: the bandwidth is ${JSON.stringify(cell(row, wide ?? bits ?? ""))}. Give a number of ${wide === undefined ? "bits" : "Gbit"} a second.`,
      );
    const width = wide === undefined ? own / 1e9 : own;
    const [a, b] = [cell(row, from), cell(row, to)];
    if (width === 0 || a === b) continue;
    const key = JSON.stringify([a, b]);
    const known = sums.get(key) ?? { from: a, to: b, gbps: 0, rows: 0 };
    sums.set(key, { ...known, gbps: known.gbps + width, rows: known.rows + 1 });
  }
  const names = [...new Set([...sums.values()].flatMap((pair) => [pair.from, pair.to]))];
  const ids = names.sort(byCodeUnit).map((name) => clusterId(name));
  const links = [...sums.values()].map((pair): Link => ({
    from: clusterId(pair.from),
    to: clusterId(pair.to),
    bandwidthGbps: gbps(pair.gbps / pair.rows),
    latencyMs: ms(1),
  }));
  return checked({ name: file, graph: openLinkGraph(ids, links), gpus: ids.map(() => gpusEach) });
}

/** These clusters of it, with the links among them. */
export function partOf({ name, graph, gpus }: Topology, chosen: readonly number[]): Topology {
  const ids = chosen.map((at) => clusterId(`c${String(at)}`));
  const links = chosen.flatMap((from, a) =>
    chosen.slice(a + 1).flatMap((to, b): Link[] => {
      const width = graph.gbps[from * graph.count + to] ?? 0;
      const [left, right] = [ids[a], ids[a + 1 + b]];
      if (width <= 0 || left === undefined || right === undefined) return [];
      return [{ from: left, to: right, bandwidthGbps: gbps(width), latencyMs: ms(1) }];
    }),
  );
  return {
    name,
    graph: openLinkGraph(ids, links),
    gpus: chosen.map((at) => gpus[at] ?? 0),
  };
}

function checked(topology: Topology): Topology {
  const { name, graph, gpus } = topology;
  if (gpus.length < 2 || graph.gbps.every((width) => width === 0))
    throw badInput(
      `${name} has ${String(gpus.length)} clusters and no links between them that can be used. Give at least two clusters and one link.`,
    );
  return topology;
}

function textOf(file: string): string {
  try {
    const bytes = readFileSync(resolve(file));
    return (file.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw badInput(`--links ${file} cannot be read (${reason}). Name a CSV file, plain or .gz.`);
  }
}

const badInput = (message: string): OrbweaverError => new OrbweaverError("BAD_INPUT", message);
