/** @file `bench placement`, part by part. */

import { join } from "node:path";
import { randomFrom } from "../../lib/random.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import type { Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { PlacementPart } from "../placement.ts";
import { drawSpeed } from "./figures.ts";
import { measureQuality, measureScale } from "./quality.ts";
import { measureSpeed, type SpeedFound, type SpeedSettings } from "./speed.ts";
import { drawnTopology, fleetTopology, tableTopology, type Topology } from "./topology.ts";

export async function runPlacement(request: BenchRequest): Promise<BenchAnswer> {
  const parts = new Set(request.chosen("only"));
  const isChosen = (part: PlacementPart): boolean => parts.has(part);
  const given = givenTopology(request);
  const small = given ?? smallFleet(request.seed);
  const large = given ?? largeFleet(request.seed);
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const details: Record<string, unknown> = {};
  if (isChosen("speed")) {
    const found: SpeedFound[] = [];
    for (const target of given === undefined ? speedSettings(small, large) : [{ topology: given }])
      found.push(await measureSpeed(target, request));
    bars.push(...found.flatMap((each) => each.bars));
    tables.push(...found.map(({ table }) => table));
    details["speed"] = found.map(({ topology, timed }) => ({ topology, timed }));
    if (request.plotDir !== undefined) drawSpeed(request.plotDir, found);
  }
  if (isChosen("quality")) {
    const sources = given === undefined ? [] : [given];
    const drawn = measureQuality(sources, request);
    bars.push(...drawn.bars);
    tables.push(drawn.table);
    details["quality"] = drawn.details;
    if (given === undefined) {
      const measured = measureQuality([tableTopology(MEASURED, request.size("gpus"))], request);
      bars.push(...measured.bars.map((bar) => ({ ...bar, id: `measured links: ${bar.id}` })));
      tables.push({ ...measured.table, title: `Measured links. ${measured.table.title}` });
      details["measured"] = measured.details;
    }
  }
  if (isChosen("scale")) bars.push(...(await measureScale(large, request)));
  return { bars, tables, details };
}

/** iperf3 between 63 regions of three clouds. */
const MEASURED = join(packageRoot(), "data", "wan", "skyplane-throughput-2022-01.csv.gz");

function givenTopology(request: BenchRequest): Topology | undefined {
  const fleet = request.text("clusters");
  const table = request.text("links");
  if (fleet !== undefined) return fleetTopology(fleet);
  return table === undefined ? undefined : tableTopology(table, request.size("gpus"));
}

/** The paper's testbed (§5.1): 16 GPUs, links of 1 to 15 Gb/s. */
function smallFleet(seed: number): Topology {
  const gpus = [2, 2, 2, 2, 2, 4, 1, 1];
  return drawnTopology(
    { name: "8 clusters", gpus, linked: 0.5, widestGbps: 15 },
    randomFrom(seed, "small fleet"),
  );
}

/** The paper's simulator (§5.1): 64 clusters of 7 hosts of 8 GPUs. */
function largeFleet(seed: number): Topology {
  const gpus = Array.from({ length: 64 }, () => 56);
  return drawnTopology(
    { name: "64 clusters", gpus, linked: 0.1, widestGbps: 25 },
    randomFrom(seed, "large fleet"),
  );
}

const speedSettings = (small: Topology, large: Topology): readonly SpeedSettings[] => [
  {
    topology: small,
    bars: { ours: 0.1, SpinSearch: 0.1 },
    paper: { SpinSearch: 2, ILP: 180, "DT-FM": 180 },
  },
  { topology: large, bars: { ours: 2, SpinSearch: 0.1 } },
];
