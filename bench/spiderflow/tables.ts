/** @file The tables of `bench spiderflow`, each under the mapping of its jobs. */

import type { Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import type { Drawn, Ran } from "./case.ts";

/** What one part of the bench answers. */
export interface PartAnswer {
  readonly bars: readonly Bar[];
  readonly table: BenchTable;
}

export const hours = (ms: number | undefined): string =>
  ms === undefined ? "-" : (ms / 3.6e6).toFixed(2);

/** How these jobs came about: printed beside every figure. */
export function mappingText({ trace, jobs, beyond, most, loads }: Drawn): string {
  const low = Math.min(...loads);
  const load = loads.every((own) => own === low)
    ? low.toFixed(2)
    : `${low.toFixed(3)} to ${Math.max(...loads).toFixed(3)}`;
  return (
    `${String(jobs)} jobs: arrivals and durations of ${trace}, stretched to an offered load of ${load}; models (NewWorkload) and GPUs drawn, up to ` +
    `${String(most)}, ${(100 * beyond).toFixed(0)} % of the jobs above the largest cluster`
  );
}

interface TableParts {
  readonly title: string;
  readonly drawn: Drawn;
  readonly rans: ReadonlyMap<string, Ran>;
}

/** QT and JCT in hours and against the first row. */
export function tableOf({ title, drawn, rans }: TableParts): BenchTable {
  const [base] = rans.values();
  const ratio = (own: number, of: number | undefined): string =>
    of === undefined ? "-" : (own / of).toFixed(2);
  return {
    title: `${title}. ${mappingText(drawn)}`,
    columns: ["METHOD", "QT H", "×", "JCT H", "×", "SAMPLES/S", "CLUSTERS", "END H", "USE"],
    rows: [...rans.values()].map((ran) => [
      ran.name,
      hours(ran.queuedMs),
      ratio(ran.queuedMs, base?.queuedMs),
      hours(ran.completionMs),
      ratio(ran.completionMs, base?.completionMs),
      ran.throughput.toFixed(1),
      ran.clusters.toFixed(2),
      hours(ran.makespanMs),
      `${(100 * ran.utilisation).toFixed(0)} %`,
    ]),
  };
}
