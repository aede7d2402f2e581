/** @file `bench pick`, part by part. */

import type { Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { PickPart } from "../pick.ts";
import { compareOn, PAPER_SAMPLES, type Compared } from "./compare.ts";
import { compareBars, compareTable, modelTable, sizesTable } from "./compare-bars.ts";
import { measureDrift } from "./drift.ts";
import { drawFigures } from "./figures.ts";
import { readLinks } from "./links.ts";
import { measureNeighbours } from "./neighbours.ts";
import { measureScale } from "./scale.ts";
import { measureSpeed } from "./speed.ts";
import { readTruthData } from "./truth-data.ts";
import { h100Truth, HET_KINDS, hetTruth, type Truth } from "./truth.ts";

const SAMPLES = {
  measured: [50, 100, PAPER_SAMPLES, 400],
  mixed: [50, 100, PAPER_SAMPLES, 400, 500],
};

export async function runPick(request: BenchRequest): Promise<BenchAnswer> {
  const parts = new Set(request.chosen("only"));
  const isChosen = (part: PickPart): boolean => parts.has(part);
  const data = readTruthData({ intra: request.text("intra"), inter: request.text("inter") });
  const measured = h100Truth(data);
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const details: Record<string, unknown> = { intra: data.intraFile, inter: data.interFile };
  if (isChosen("compare")) {
    const byCluster = new Map<string, readonly Compared[]>();
    for (const truth of truthsOf(request, measured, data)) {
      const compared = await compareSeeds(request, truth);
      byCluster.set(truth.name, compared);
      tables.push(compareTable(truth.name, compared), sizesTable(truth.name, compared));
      tables.push(modelTable(truth.name, compared));
      bars.push(...compareBars(truth.name, compared));
    }
    if (request.plotDir !== undefined) drawFigures(request.plotDir, byCluster);
  }
  const setting = { request, truth: measured };
  if (isChosen("speed")) bars.push(...(await measureSpeed(setting)));
  if (isChosen("scale")) bars.push(...(await measureScale(setting)));
  if (isChosen("neighbours")) bars.push(...(await measureNeighbours(setting)));
  if (isChosen("drift")) {
    const drift = await measureDrift(setting);
    bars.push(...drift.bars);
    tables.push(drift.table);
  }
  return { bars, tables, details };
}

function truthsOf(
  request: BenchRequest,
  measured: Truth,
  data: Parameters<typeof h100Truth>[0],
): readonly Truth[] {
  const chosen = new Set(request.chosen("clusters"));
  const mixed = HET_KINDS.flatMap((kind) => hetTruth(kind, data) ?? []);
  return [measured, ...mixed].filter(({ name }) => chosen.has(name));
}

async function compareSeeds(request: BenchRequest, truth: Truth): Promise<readonly Compared[]> {
  const only = request.size("samples");
  const usual = truth.samples.length > 0 ? SAMPLES.measured : SAMPLES.mixed;
  const plan = {
    links: readLinks(),
    sizes: { smallest: 1, largest: request.size("largest"), each: request.size("each") },
    samples: only > 0 ? [only] : usual,
    training: request.chosen("training").includes("asked") ? "asked" : "drawn",
    say: request.say,
  } as const;
  const compared: Compared[] = [];
  for (let at = 0; at < request.size("seeds"); at += 1) {
    request.interrupted.throwIfAborted();
    compared.push(await compareOn(truth, request.seed + at, plan));
  }
  return compared;
}
