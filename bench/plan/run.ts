/** @file `bench plan`, part by part. */

import { resolve } from "node:path";
import type { Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { PlanPart } from "../plan.ts";
import {
  measureCuts,
  measureModelCuts,
  measureOwnGraph,
  sharesOf,
  type CutFound,
  type CutSetting,
} from "./cuts.ts";
import { drawPlanFigures } from "./figures.ts";
import { dataPath } from "./files.ts";
import { measureFits } from "./fit.ts";
import { measureFourSites } from "./four-sites.ts";
import { measureFragmentation } from "./fragmentation.ts";
import { measureLearning } from "./learning.ts";
import { measureLinks } from "./links.ts";
import {
  measureOwnPipelines,
  measurePipelines,
  readOperators,
  type PipelineFound,
} from "./pipelines.ts";
import { measureShares } from "./shares.ts";
import { measureSplits } from "./splits.ts";
import { measureTogether } from "./together.ts";

export async function runPlan(request: BenchRequest): Promise<BenchAnswer> {
  const parts = (request.text("parts") ?? "4,8,16,uneven").split(",").map((part) => part.trim());
  for (const part of parts) sharesOf(part);
  const setting: CutSetting = {
    seed: request.seed,
    seeds: request.size("seeds"),
    parts,
    rivals: request.size("rivals"),
    rivalMs: 1000 * request.size("rival-seconds"),
    say: (line) => {
      request.interrupted.throwIfAborted();
      request.say(line);
    },
  };
  const own = request.text("graph");
  if (own !== undefined) {
    const { bars, tables, found } = measureOwnGraph(resolve(own), setting);
    const graph = readOperators(resolve(own), own);
    if (graph === undefined) return { bars, tables, details: { cuts: found } };
    const counts = parts.filter((part) => part !== "uneven").map(Number);
    const pipelines = measureOwnPipelines(graph, counts);
    return {
      bars: [...bars, ...pipelines.bars],
      tables: [...tables, ...pipelines.tables],
      details: { cuts: found, pipelines: pipelines.found },
    };
  }
  const chosen = new Set(request.chosen("only"));
  const isChosen = (part: PlanPart): boolean => chosen.has(part);
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const cuts: CutFound[] = [];
  if (isChosen("cuts")) {
    const measured = await measureCuts(setting);
    bars.push(...measured.bars);
    tables.push(...measured.tables);
    cuts.push(...measured.found);
  }
  if (isChosen("models")) {
    const measured = measureModelCuts(setting);
    bars.push(...measured.bars);
    tables.push(...measured.tables);
    cuts.push(...measured.found);
  }
  const pipelines: PipelineFound[] = [];
  if (isChosen("pipelines")) {
    const measured = measurePipelines(setting.say);
    bars.push(...measured.bars);
    tables.push(...measured.tables);
    pipelines.push(...measured.found);
  }
  if (isChosen("shares")) {
    const shares = measureShares();
    bars.push(...shares.bars);
    tables.push(shares.table);
    if (request.plotDir !== undefined) drawPlanFigures(request.plotDir, shares.points);
  }
  if (isChosen("links")) {
    const links = await measureLinks(setting.say);
    bars.push(...links.bars);
    tables.push(links.table);
  }
  if (isChosen("four-sites")) {
    const large = await measureFourSites(setting.say);
    bars.push(...large.bars);
    tables.push(large.table);
  }
  if (isChosen("splits")) {
    const splits = await measureSplits(request.seed, setting.say);
    bars.push(...splits.bars);
    tables.push(splits.table);
  }
  if (isChosen("fit")) {
    const fits = measureFits(dataPath("profiles/rubick"), request.text("profiles"));
    bars.push(...fits.bars);
    tables.push(...fits.tables);
  }
  if (isChosen("buddy")) {
    const fragmentation = measureFragmentation(request.seed);
    bars.push(...fragmentation.bars);
    tables.push(fragmentation.table);
  }
  if (isChosen("together")) {
    const together = await measureTogether(request.seed, setting.say);
    bars.push(...together.bars);
    tables.push(together.table);
  }
  if (isChosen("learning")) {
    const learning = await measureLearning(request.seed, setting.say);
    bars.push(...learning.bars);
    tables.push(learning.table);
  }
  return { bars, tables, details: { cuts, pipelines } };
}
