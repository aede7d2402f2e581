/**
 * @file §5.6: eight clusters of 1 to 4 GPUs, what each step brings against Opportunistic with plain splits.
 *
 * At an offered load of 0.8 and above Opportunistic cannot keep up: its gangs lie over many clusters and run several times as long as the trace says, so its queue
 * grows until the last job and the ratios are those of an overloaded fleet. So the load that it just bears is played as well (`stable`).
 */

import { opportunistic } from "../rivals/placement/clusters.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { overSeeds, runCase, stableLoad, type Case, type CaseRun, type Ran } from "./case.ts";
import { drawBreakdown, drawQueues } from "./figures.ts";
import { OURS } from "./methods.ts";
import { testbed, type TraceName } from "./scenes.ts";
import { tableOf, type PartAnswer } from "./tables.ts";

const PAPER_BREAKDOWN = {
  Philly: { spin: [0.82, 0.87], end: [0.73, 0.79] },
  Helios: { spin: [0.79, 0.84], end: [0.71, 0.78] },
} as const;

/** As many GPUs as three quarters of the fleet. */
export const FURTHEST_GPUS = 12;
const MOST_LOAD = 0.8;
const BASE = { name: "Opportunistic", policy: opportunistic, split: "plain" } as const;

export const seedsOf = (request: BenchRequest): readonly number[] =>
  Array.from({ length: request.size("seeds") }, (_, at) => request.seed + at);

export async function breakdown(
  trace: TraceName,
  loadText: string,
  request: BenchRequest,
): Promise<PartAnswer> {
  const isStable = loadText === "stable";
  const what = isStable ? `${trace} at a stable load` : `${trace} at load ${loadText}`;
  const runs: CaseRun[] = [];
  for (const seed of seedsOf(request)) {
    const beyondShare = request.size("beyond") / 100;
    const each: Case = {
      scene: testbed(seed),
      trace,
      jobs: request.size("jobs"),
      seed,
      shape: {
        beyondShare,
        furthest: FURTHEST_GPUS,
        load: isStable ? MOST_LOAD : Number(loadText),
      },
      hasProduct: true,
    };
    const load = isStable ? stableLoad(each, BASE) : each.shape.load;
    runs.push(await runCase({ ...each, shape: { ...each.shape, load } }, request, what));
  }
  const { rans, drawn } = overSeeds(runs);
  if (request.plotDir !== undefined) {
    drawQueues(request.plotDir, what, rans);
    drawBreakdown(request.plotDir, what, rans);
  }
  const base = rans.get(BASE.name);
  const ratio = (name: string, of: (ran: Ran) => number): number | undefined => {
    const own = rans.get(name);
    return own === undefined || base === undefined ? undefined : of(own) / of(base);
  };
  const paper = PAPER_BREAKDOWN[trace];
  const pair = (id: string, name: string, figures: readonly [number, number]): readonly Bar[] => {
    const limits = name === OURS ? ([0.7, 0.75] as const) : undefined;
    const bar = (key: string, at: 0 | 1, of: (ran: Ran) => number): Bar =>
      barOf({
        id: `${what}: ${key} ${id}`,
        unit: "×",
        target: limits === undefined ? REPORTED : atMost(limits[at]),
        got: ratio(name, of),
        paper: figures[at],
      });
    return [
      bar("QT", 0, ({ queuedMs }) => queuedMs),
      bar("JCT", 1, ({ completionMs }) => completionMs),
    ];
  };
  return {
    bars: [
      ...pair("+ SpinSearch", "+ SpinSearch", paper.spin),
      ...pair("+ TPA", "SpinSearch + TPA", paper.end),
      ...pair("ours", OURS, paper.end),
    ],
    table: tableOf({
      title: `${what}: 8 clusters of 1 to 4 GPUs, ${String(runs.length)} seeds`,
      drawn,
      rans,
    }),
  };
}
