/** @file What graceful degradation brings: the same arrivals with gangs that accept less after their timeout, and with all-or-nothing ones. */

import { atLeast, atMost, barOf, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { figureText } from "../report.ts";
import { allOrNothing } from "../../simulator/entrants/entrants.ts";
import { optionsOf, type Setting } from "./compare.ts";
import { figuresOf, overSeeds, type Figures } from "./figures.ts";
import { PAPER_TAWFQ } from "../../simulator/entrants/frozen-mix.ts";
import { percent } from "./policy-bars.ts";
import { runOne } from "./run-one.ts";

export async function measureDegradation(
  request: BenchRequest,
  settings: readonly Setting[],
): Promise<{ readonly bars: readonly Bar[]; readonly details: Readonly<Record<string, unknown>> }> {
  const withIt: Figures[] = [];
  const without: Figures[] = [];
  for (const setting of settings) {
    request.say(`degradation, seed ${String(setting.seed)}: with it and without`);
    withIt.push(figuresOf(await runOne(optionsOf("tawfq", setting), request)));
    const rigid = { ...setting, workload: allOrNothing(setting.workload) };
    without.push(figuresOf(await runOne(optionsOf("tawfq", rigid), request)));
  }
  const change = (of: (figures: Figures) => number): number =>
    overSeeds(withIt, of).mean / overSeeds(without, of).mean - 1;
  const pair = (of: (figures: Figures) => number, factor: number): string =>
    `${figureText(overSeeds(withIt, of).mean * factor)} with, ${figureText(overSeeds(without, of).mean * factor)} without`;
  const queued = (figures: Figures): number => figures.trainingQueuedMs;
  const utilisation = (figures: Figures): number => figures.utilisation;
  const completion = (figures: Figures): number => figures.trainingCompletionMs;
  return {
    bars: [
      barOf({
        id: "degradation-queue-time",
        unit: "%",
        paper: percent(PAPER_TAWFQ.degradedQueueTime),
        target: atMost(-62),
        got: percent(change(queued)),
        note: `mean time of training jobs in the queue, s: ${pair(queued, 1e-3)}`,
      }),
      barOf({
        id: "degradation-utilisation",
        unit: "points",
        paper: percent(PAPER_TAWFQ.degradedUtilisation),
        target: atLeast(8),
        got: percent(overSeeds(withIt, utilisation).mean - overSeeds(without, utilisation).mean),
        note: `%: ${pair(utilisation, 100)}`,
      }),
      barOf({
        id: "degradation-completion",
        unit: "%",
        target: atMost(0),
        got: percent(change(completion)),
        note: `mean time from submission to end of training jobs, s: ${pair(completion, 1e-3)}`,
      }),
    ],
    details: { with: withIt, without },
  };
}
