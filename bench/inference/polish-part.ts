/**
 * @file Plans that a solver may better for a stated time, as it does for a served model that stays: never worse, with the gap to the bound.
 *
 * Three of the paper's models and three profiles, on the A6000 server.
 */

import { polishedFacts } from "../../activities/serving-polish.ts";
import { readInferenceGraph } from "../../cli/planning/inference-source.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { highsSolver } from "../../solvers/index.ts";
import { barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { hostNamed, problemFor, search, type MeasureOptions } from "./cells.ts";

const MODELS = [
  "GPT2-large@1x32",
  "GPT2-xl@1x32",
  "OpenLLaMA-3B@1x32",
  "data/model-graphs/msr/layers_bert24_inference.json.gz",
  "data/model-graphs/msr/operators_resnet50_inference.json.gz",
  "data/model-graphs/pipedream/gnmt.txt",
] as const;

interface PolishRow {
  readonly model: string;
  readonly formerMs: number;
  readonly polishedMs: number;
  readonly gapPercent: number;
  readonly proven: string;
  readonly seconds: number;
}

export async function measurePolish(
  options: MeasureOptions & { readonly limitMs: number },
  say: (line: string) => void,
): Promise<readonly PolishRow[]> {
  const host = hostNamed("a6000");
  const rows: PolishRow[] = [];
  for (const name of MODELS) {
    const graph = await readInferenceGraph(name, { cwd: packageRoot(), profiledOn: "V100" });
    say(`polishing ${graph.name}`);
    const problem = problemFor(graph, host);
    const found = search(problem, options);
    const startMs = performance.now();
    const { limitMs } = options;
    const facts = await polishedFacts(problem, found, { solver: highsSolver, limitMs });
    const { simulatedMs: polishedMs, lowerBoundMs, polish } = facts;
    rows.push({
      model: graph.name,
      formerMs: polish?.formerMs ?? NaN,
      polishedMs,
      gapPercent: 100 * (1 - lowerBoundMs / polishedMs),
      proven: `${polish?.proven ?? 0} of ${polish?.submodels ?? 0}`,
      seconds: (performance.now() - startMs) / 1e3,
    });
  }
  return rows;
}

export function polishBars(rows: readonly PolishRow[]): Bar[] {
  const gaps = rows.map(({ gapPercent }) => gapPercent);
  return [
    barOf({
      id: "plans that a solver made worse",
      unit: "plans",
      target: exactly(0),
      got: rows.filter(({ formerMs, polishedMs }) => !(polishedMs <= formerMs)).length,
      note: `${rows.length} models on a6000; ${rows.filter(({ formerMs, polishedMs }) => polishedMs < formerMs).length} became faster`,
    }),
    barOf({
      id: "gap to the bound",
      unit: "%",
      target: REPORTED,
      got: mean(gaps),
      note: `mean; at most ${Math.max(...gaps).toFixed(2)}`,
    }),
    barOf({
      id: "longest polish",
      unit: "s",
      target: REPORTED,
      got: Math.max(...rows.map(({ seconds }) => seconds)),
    }),
  ];
}

export const polishTable = (rows: readonly PolishRow[]): BenchTable => ({
  title: "Plans that a solver may better, on a6000",
  columns: ["model", "before ms", "after ms", "gap %", "MILPs proven", "s"],
  rows: rows.map(({ model, formerMs, polishedMs, gapPercent, proven, seconds }) => [
    model,
    formerMs.toFixed(2),
    polishedMs.toFixed(2),
    gapPercent.toFixed(2),
    proven,
    seconds.toFixed(0),
  ]),
});
