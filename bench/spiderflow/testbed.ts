/** @file §5.3 and A.4: throughput and completion on the paper's eight servers against each rival, and what decisions take. */

import { atLeast, atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { FURTHEST_GPUS, seedsOf } from "./breakdown.ts";
import { overSeeds, runCase, type CaseRun } from "./case.ts";
import { drawTestbed } from "./figures.ts";
import { OURS, RIVALS } from "./methods.ts";
import { testbed } from "./scenes.ts";
import { tableOf, type PartAnswer } from "./tables.ts";

export async function onTestbed(request: BenchRequest): Promise<PartAnswer> {
  const runs: CaseRun[] = [];
  for (const seed of seedsOf(request)) {
    const shape = { beyondShare: request.size("beyond") / 100, furthest: FURTHEST_GPUS, load: 1 };
    const jobs = request.size("testbed-jobs");
    const each = { scene: testbed(seed), trace: "Philly", jobs, seed, shape } as const;
    runs.push(await runCase({ ...each, hasProduct: true }, request, "testbed"));
  }
  const { rans, drawn } = overSeeds(runs);
  if (request.plotDir !== undefined) drawTestbed(request.plotDir, rans);
  const ours = rans.get(OURS);
  const bars = RIVALS.flatMap((name): Bar[] => {
    const rival = rans.get(name);
    if (rival === undefined || ours === undefined) return [];
    const isCut = name === "MAST";
    return [
      barOf({
        id: `testbed: rate ÷ ${name}'s`,
        unit: "×",
        target: isCut ? REPORTED : atLeast(1.25),
        got: ours.throughput / rival.throughput,
        paper: 1.25,
        ...(isCut && {
          note: "MAST runs gangs above a cluster on fewer GPUs, which no other method may",
        }),
      }),
      barOf({
        id: `testbed: ${name}'s JCT ÷ ours`,
        unit: "×",
        target: atLeast(1.3),
        got: rival.completionMs / ours.completionMs,
        paper: 1.3,
      }),
    ];
  });
  return {
    bars: [
      ...bars,
      barOf({
        id: "testbed: time of decisions",
        unit: "% of job time",
        target: atMost(1),
        got: ours === undefined ? undefined : 100 * ours.overhead,
        paper: 1,
      }),
    ],
    table: tableOf({ title: `8 servers with 16 GPUs, ${String(runs.length)} seeds`, drawn, rans }),
  };
}
