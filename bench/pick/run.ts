/** @file `bench pick`, part by part. */

import type { Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { PickPart } from "../pick.ts";
import {
  accuracyBars,
  accuracyTable,
  measureAccuracy,
  trainingBars,
  type AccuracyFound,
} from "./accuracy.ts";
import { runAtScale } from "./at-scale/run.ts";
import { compareOn, PAPER_SAMPLES, type Compared } from "./compare.ts";
import { compareBars, compareTable, modelTable, sizesTable } from "./compare-bars.ts";
import { measureDrift } from "./drift.ts";
import { drawAblation, drawFigures, drawSearchTimes, drawTestedSettings } from "./figures.ts";
import { measureGranted } from "./granted.ts";
import { readLinks } from "./links.ts";
import { measureNeighbours } from "./neighbours.ts";
import { measureScale } from "./scale.ts";
import { measureSearchTimes } from "./search-times.ts";
import { measureSpeed } from "./speed.ts";
import { readTestedSettings } from "./tested-settings.ts";
import { measureSizes } from "./sizes.ts";
import { readSizedTruths } from "./sized-truths.ts";
import { openTrainings, type Trainings } from "./trained.ts";
import { PRODUCT_WAY, TRAINING_WAYS, type TrainingWay } from "./training-sets.ts";
import { readTruthData } from "./truth-data.ts";
import { h100Truth, HET_KINDS, hetTruth, type Truth } from "./truth.ts";

const SAMPLES = {
  measured: [25, 50, 100, PAPER_SAMPLES, 400],
  mixed: [50, 100, PAPER_SAMPLES, 400, 500],
};

export async function runPick(request: BenchRequest): Promise<BenchAnswer> {
  const fabrics = request.text("fabric");
  if (fabrics !== undefined) return runAtScale(fabrics, request);
  const parts = new Set(request.chosen("only"));
  const isChosen = (part: PickPart): boolean => parts.has(part);
  const data = readTruthData({ intra: request.text("intra"), inter: request.text("inter") });
  const isPaperData = request.text("intra") === undefined && request.text("inter") === undefined;
  const measured = h100Truth(data);
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const trainings = openTrainings();
  const details: Record<string, unknown> = { intra: data.intraFile, inter: data.interFile };
  if (isChosen("compare")) {
    const byCluster = new Map<string, readonly Compared[]>();
    for (const truth of truthsOf(request, measured, data)) {
      const compared = await compareSeeds(request, truth, trainings);
      byCluster.set(truth.name, compared);
      tables.push(compareTable(truth.name, compared), sizesTable(truth.name, compared));
      tables.push(modelTable(truth.name, compared));
      bars.push(...compareBars(truth.name, compared, { isPaperData }));
    }
    if (request.plotDir !== undefined) drawFigures(request.plotDir, byCluster);
  }
  if (isChosen("accuracy")) {
    const found: AccuracyFound[] = [];
    for (const truth of truthsOf(request, measured, data)) {
      const own = await accuracyOn(request, truth, trainings);
      found.push(own);
      tables.push(accuracyTable(truth.name, own.figures));
      bars.push(...accuracyBars(truth, own.figures));
      if (request.plotDir !== undefined) drawAblation(request.plotDir, truth.name, own.figures);
    }
    bars.push(...trainingBars(found.flatMap(({ times }) => times)));
    details["accuracy"] = found;
  }
  const setting = { request, truth: measured, trainings };
  if (isChosen("speed")) {
    bars.push(...(await measureSpeed(setting)));
    if (request.plotDir !== undefined) {
      drawSearchTimes(request.plotDir, await measureSearchTimes(setting));
      drawTestedSettings(request.plotDir, readTestedSettings());
    }
  }
  if (isChosen("scale")) bars.push(...(await measureScale(setting)));
  if (isChosen("neighbours")) bars.push(...(await measureNeighbours(setting)));
  if (isChosen("drift")) {
    const drift = await measureDrift(setting);
    bars.push(...drift.bars);
    tables.push(drift.table);
  }
  if (isChosen("granted")) {
    const chosen = truthsOf(request, measured, data);
    const truths = chosen.filter(({ name }) => GRANTED_ON.has(name));
    const granted = await measureGranted({ request, truths, trainings });
    bars.push(...granted.bars);
    tables.push(granted.table);
  }
  const sized = readSizedTruths(request);
  if (isChosen("sizes") && sized.length > 0) {
    const found = await measureSizes({
      truths: sized,
      seeds: seedsOf(request),
      links: readLinks(),
      sizes: { smallest: 1, largest: request.size("largest"), each: request.size("each") },
      say: saying(request),
    });
    bars.push(...found.bars);
    tables.push(found.table);
  }
  return { bars, tables, details };
}

const GRANTED_ON: ReadonlySet<string> = new Set(["H100", "Het-4Mix"]);

function truthsOf(
  request: BenchRequest,
  measured: Truth,
  data: Parameters<typeof h100Truth>[0],
): readonly Truth[] {
  const chosen = new Set(request.chosen("clusters"));
  const mixed = HET_KINDS.flatMap((kind) => hetTruth(kind, data) ?? []);
  return [measured, ...mixed].filter(({ name }) => chosen.has(name));
}

const samplesFor = (request: BenchRequest, truth: Truth): readonly number[] => {
  const only = request.size("samples");
  if (only > 0) return [only];
  return truth.samples.length > 0 ? SAMPLES.measured : SAMPLES.mixed;
};

const seedsOf = (request: BenchRequest): readonly number[] =>
  Array.from({ length: request.size("seeds") }, (_, at) => request.seed + at);

/** The product's alone unless others are named; it comes first. */
function waysOf(request: BenchRequest): readonly [TrainingWay, ...TrainingWay[]] {
  const wanted = new Set(request.chosen("training"));
  const isUsual = wanted.size > TRAINING_WAYS.length;
  const [first = PRODUCT_WAY, ...others] = TRAINING_WAYS.filter(
    (way) => !isUsual && (wanted.has("all") || wanted.has(way)),
  );
  return [first, ...others];
}

const accuracyOn = (
  request: BenchRequest,
  truth: Truth,
  trainings: Trainings,
): Promise<AccuracyFound> =>
  measureAccuracy(truth, {
    samples: samplesFor(request, truth),
    seeds: seedsOf(request),
    training: waysOf(request),
    withFlat: true,
    trainings,
    say: saying(request),
  });

const saying =
  (request: BenchRequest) =>
  (line: string): void => {
    request.interrupted.throwIfAborted();
    request.say(line);
  };

async function compareSeeds(
  request: BenchRequest,
  truth: Truth,
  trainings: Trainings,
): Promise<readonly Compared[]> {
  const plan = {
    links: readLinks(),
    sizes: { smallest: 1, largest: request.size("largest"), each: request.size("each") },
    samples: samplesFor(request, truth),
    training: waysOf(request),
    trainings,
    say: saying(request),
  };
  const compared: Compared[] = [];
  for (const seed of seedsOf(request)) compared.push(await compareOn(truth, seed, plan));
  return compared;
}
