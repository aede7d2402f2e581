/** @file §5.5 and A.3: six clusters of 512 GPUs, and 1 to 64 clusters of 56, both one seed. */

import { atLeast, atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { overSeeds, runCase, type Case, type Ran } from "./case.ts";
import { drawOverTime, drawScales, type ScaleRans } from "./figures.ts";
import { OURS, RIVALS } from "./methods.ts";
import { CLUSTER_GPUS, manyClusters, sixClusters, type TraceName } from "./scenes.ts";
import { hours, mappingText, tableOf, type PartAnswer } from "./tables.ts";

/** A sum of floats. */
const TIED = 1 + 1e-9;
const PAPERS = "SpinSearch + TPA";

export async function onSixClusters(trace: TraceName, request: BenchRequest): Promise<PartAnswer> {
  const shape = { beyondShare: 0, furthest: 256, load: 1 };
  const jobs = request.size("large-jobs");
  const each: Case = { scene: sixClusters(), trace, jobs, seed: request.seed, shape };
  const what = `six clusters, ${trace}`;
  const { rans, drawn } = overSeeds([await runCase(each, request, what)]);
  const { gpus } = each.scene.fleet;
  const fleetGpus = gpus.reduce((sum, own) => sum + own, 0);
  if (request.plotDir !== undefined) drawOverTime(request.plotDir, trace, { rans, fleetGpus });
  const ours = rans.get(OURS);
  const rivals = RIVALS.flatMap((name) => rans.get(name) ?? []);
  const against = (
    of: (ran: Ran) => number,
    best: (...values: number[]) => number,
  ): number | undefined => (ours === undefined ? undefined : of(ours) / best(...rivals.map(of)));
  const papers = rans.get(PAPERS);
  return {
    bars: [
      barOf({
        id: `${what}: end of all jobs`,
        unit: "× first rival",
        target: atMost(TIED),
        got: against(({ makespanMs }) => makespanMs, Math.min),
      }),
      barOf({
        id: `${what}: utilisation`,
        unit: "× best rival",
        target: atLeast(1),
        got: against(({ utilisation }) => utilisation, Math.max),
      }),
      barOf({
        id: `${what}: mean JCT`,
        unit: "× best rival",
        target: REPORTED,
        got: against(({ completionMs }) => completionMs, Math.min),
      }),
      barOf({
        id: `${what}: utilisation`,
        unit: `× ${PAPERS}`,
        target: REPORTED,
        got: ours && papers && ours.utilisation / papers.utilisation,
      }),
    ],
    table: tableOf({ title: "Six clusters of 512 GPUs at 5 Gb/s", drawn, rans }),
  };
}

const SCALES = [1, 4, 16, 64] as const;
/** Clusters at which the offered load is 1. */
const FULL_AT = 4;

/** The same jobs at the same times at each scale but the first, whose one cluster holds no gang beyond it: the load falls as clusters are added. */
export async function onManyClusters(request: BenchRequest): Promise<PartAnswer> {
  const jobs = request.size("scaling-jobs");
  const { seed } = request;
  const bars: Bar[] = [];
  const rows: (readonly string[])[] = [];
  const mappings: string[] = [];
  const found: ScaleRans[] = [];
  for (const clusters of SCALES) {
    const isOne = clusters === 1;
    const shape = {
      beyondShare: isOne ? 0 : request.size("beyond") / 100,
      furthest: isOne ? CLUSTER_GPUS : 2 * CLUSTER_GPUS,
      load: FULL_AT / clusters,
    };
    const scene = manyClusters(clusters, seed);
    const each: Case = { scene, trace: "Helios", jobs, seed, shape };
    const { rans, drawn } = overSeeds([
      await runCase(each, request, `${String(clusters)} clusters`),
    ]);
    found.push({ clusters, rans });
    mappings.push(`${String(clusters)} clusters: ${mappingText(drawn)}`);
    const ours = rans.get(OURS);
    const rivals = RIVALS.flatMap((name) => rans.get(name) ?? []);
    const best = Math.min(...rivals.map(({ completionMs }) => completionMs));
    bars.push(
      barOf({
        id: `${String(clusters)} clusters: mean JCT`,
        unit: "× best rival",
        target: atMost(TIED),
        got: ours === undefined ? undefined : ours.completionMs / best,
      }),
    );
    rows.push([
      String(clusters),
      ...[OURS, PAPERS, ...RIVALS].map((name) => hours(rans.get(name)?.completionMs)),
    ]);
  }
  if (request.plotDir !== undefined) drawScales(request.plotDir, found);
  return {
    bars,
    table: {
      title: `Mean JCT in hours over clusters of ${String(CLUSTER_GPUS)} GPUs. ${mappings.join("; ")}`,
      columns: ["CLUSTERS", OURS, PAPERS, ...RIVALS],
      rows,
    },
  };
}
