/** @file Our search beside proven optima: recorded ones, each checked against equations 1 to 23 again, and some proven again. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../workers/server/package-root.ts";
import { highsSolver } from "../../solvers/index.ts";
import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import { mean } from "../statistics.ts";
import { proveCase, recordedMs, searchedMs, type Proven } from "./optimum.ts";

interface OptimumOptions {
  readonly cases: number;
  readonly prove: number;
  readonly say: (line: string) => void;
  readonly interrupted: AbortSignal;
}

const EPSILON = 1e-5;
const PROVE_LIMIT_MS = 120_000;

export async function measureOptimum({
  cases,
  prove,
  say,
  interrupted,
}: OptimumOptions): Promise<Bar[]> {
  const recorded = readProven().slice(0, cases);
  const ratios: number[] = [];
  let wrong = 0;
  for (const [at, proven] of recorded.entries()) {
    interrupted.throwIfAborted();
    if (at % 50 === 0) say(`search against proven optima: ${at} of ${recorded.length}`);
    const again = recordedMs(proven);
    if (again === undefined || Math.abs(again / proven.optimumMs - 1) > EPSILON) wrong += 1;
    ratios.push(searchedMs(proven.seed) / proven.optimumMs);
  }
  let disagree = 0;
  let closed = 0;
  for (const { seed, q, optimumMs } of spread(recorded, prove)) {
    interrupted.throwIfAborted();
    say(`HiGHS proves case ${seed} again`);
    const proven = await proveCase(highsSolver, seed, { q, timeLimitMs: PROVE_LIMIT_MS });
    if (proven === undefined) continue;
    closed += 1;
    if (Math.abs(proven.optimumMs / optimumMs - 1) > EPSILON) disagree += 1;
  }
  // What is below the slots' optimum is counted as equal to it: it must not pay for what is above.
  const atBest = ratios.map((ratio) => Math.max(1, ratio));
  const nodes = recorded.map((each) => each.nodes);
  const largest = Math.max(...nodes);
  return [
    barOf({
      id: "proven cases",
      unit: "cases",
      target: atLeast(200),
      got: recorded.length,
      note: `${Math.min(...nodes)} to ${largest} nodes (${nodes.filter((each) => each === largest).length} cases have ${largest}), 2 GPUs, HiGHS, gap 0`,
    }),
    barOf({
      id: "search over proven optimum, mean",
      unit: "×",
      target: atMost(1.01),
      got: mean(atBest),
      note: `ratios below 1 (${ratios.filter((ratio) => ratio < 1 - EPSILON).length} cases, our plans have no slots) count as 1; as they are ${mean(ratios).toFixed(3)}`,
    }),
    barOf({
      id: "search over proven optimum, worst",
      unit: "×",
      target: atMost(1.05),
      got: Math.max(...ratios),
    }),
    barOf({
      id: "recorded optima that break an equation",
      unit: "cases",
      target: exactly(0),
      got: wrong,
    }),
    barOf({
      id: "optima that HiGHS proved otherwise now",
      unit: "cases",
      target: prove === 0 ? REPORTED : exactly(0),
      got: disagree,
      note: `${closed} of ${Math.min(prove, recorded.length)} proven again`,
    }),
  ];
}

/** So many of the list at equal distances, the first and the last among them. */
const spread = <T>(list: readonly T[], count: number): readonly T[] =>
  Array.from({ length: Math.min(count, list.length) }, (_, at) =>
    Math.floor((at * (list.length - 1)) / Math.max(1, Math.min(count, list.length) - 1)),
  ).flatMap((at) => list[at] ?? []);

function readProven(): readonly Proven[] {
  const file = join(packageRoot(), "data", "inference", "proven-cases.jsonl");
  return readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line): Proven => JSON.parse(line));
}
