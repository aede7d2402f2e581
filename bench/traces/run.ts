/** @file `bench traces`: plays the chosen cases, and gives a table for each, and the bars. */

import { unmeasured, REPORTED } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import { figureText } from "../report.ts";
import { barsOf, meansOf, type Mean } from "./bars.ts";
import { casesOf, type TraceCase } from "./definition.ts";
import { TRACE_ENTRANTS, type TraceEntrant } from "./entrants.ts";
import type { Figures } from "./figures.ts";
import { FLEET_SIZES } from "./names.ts";
import { playAll } from "./play.ts";

export async function runTraces(request: BenchRequest): Promise<BenchAnswer> {
  const entrants = chosenEntrants(request.chosen("policies"));
  const cases = chosenCases(request);
  const most = request.size("jobs");
  const parallel = request.size("parallel");
  const { played, missing } = await playAll(request, cases, { entrants, most, parallel });
  const bars = [
    ...barsOf(played, entrants),
    ...[...missing].map(([trace, why]) =>
      unmeasured({ id: `trace-${trace}`, unit: "", target: REPORTED }, why),
    ),
  ];
  const means = meansOf(played);
  return {
    bars,
    tables: means.map((each) => tableOf(each, entrants)),
    details: {
      cases: played.map(({ its, figures }) => ({ ...its, figures: Object.fromEntries(figures) })),
    },
  };
}

/** Ours is always played: the bars are about it. */
const chosenEntrants = (names: readonly string[]): readonly TraceEntrant[] =>
  TRACE_ENTRANTS.filter(({ name, scope }) => scope === "ours" || names.includes(name));

/** Sizes that were asked for are taken from all cases; else those of the default run, unless all are to be played. */
function chosenCases(request: BenchRequest): readonly TraceCase[] {
  const isFull = request.flag("full");
  const sizes = request.chosen("gpus");
  const isSized = sizes.length < FLEET_SIZES.length;
  const windows = request.chosen("windows");
  return casesOf(isFull || isSized).filter(
    ({ trace, gpus, load, window, limits, restart }) =>
      request.chosen("only").includes(trace) &&
      request.chosen("loads").includes(load) &&
      sizes.includes(gpus) &&
      (isFull || !isSized || (limits === "none" && restart === "2")) &&
      windows.includes(window),
  );
}

const COLUMNS: readonly (readonly [title: string, of: (figures: Figures) => number])[] = [
  ["mean h", ({ mean }) => mean],
  ["p50 h", ({ median }) => median],
  ["p99 h", ({ p99 }) => p99],
  ["wait h", ({ wait }) => wait],
  ["bsld", ({ slowdown }) => slowdown],
  ["p99.9", ({ slowdownP999 }) => slowdownP999],
  ["run", ({ runOverIdeal }) => runOverIdeal],
  ["net %", ({ net }) => 100 * net],
  ["idle %", ({ idle }) => 100 * idle],
  ["count %", ({ idleByCount }) => 100 * idleByCount],
  ["vac %", ({ vacating }) => 100 * vacating],
  ["resv %", ({ reserve }) => 100 * reserve],
  ["share", ({ share }) => share],
  ["Jain", ({ jain }) => jain],
];

function tableOf({ name, of }: Mean, entrants: readonly TraceEntrant[]): BenchTable {
  const rows = entrants.flatMap(({ name: policy }): (readonly string[])[] => {
    const figures = of(policy);
    return figures === undefined
      ? []
      : [[policy, ...COLUMNS.map(([, figure]) => figureText(figure(figures)))]];
  });
  return { title: name, columns: ["policy", ...COLUMNS.map(([title]) => title)], rows };
}
