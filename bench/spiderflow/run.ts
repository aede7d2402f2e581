/** @file `bench spiderflow`, part by part: the same jobs under each method, means over jobs and seeds, ratios as the paper has them. */

import type { Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { SpiderflowPart } from "../spiderflow.ts";
import { breakdown } from "./breakdown.ts";
import { onManyClusters, onSixClusters } from "./large.ts";
import { TRACES } from "./scenes.ts";
import type { PartAnswer } from "./tables.ts";
import { onTestbed } from "./testbed.ts";

export async function runSpiderflow(request: BenchRequest): Promise<BenchAnswer> {
  const parts = new Set(request.chosen("only"));
  const isChosen = (part: SpiderflowPart): boolean => parts.has(part);
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const add = (answer: PartAnswer): void => {
    bars.push(...answer.bars);
    tables.push(answer.table);
  };
  if (isChosen("breakdown"))
    for (const trace of TRACES)
      for (const load of request.chosen("loads")) add(await breakdown(trace, load, request));
  if (isChosen("testbed")) add(await onTestbed(request));
  if (isChosen("large")) for (const trace of TRACES) add(await onSixClusters(trace, request));
  if (isChosen("scaling")) add(await onManyClusters(request));
  return { bars, tables };
}
