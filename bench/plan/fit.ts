/**
 * @file How far the step-time model is off where it was not fitted: five rows of a profile fit it, all others judge it.
 *
 * Profiles vary batch and placement, or (Rubick) placement at one global batch. The model, its priors and the rule that chooses the rows are in `step-fit.ts`; no time is
 * looked at before the rows are chosen. Cost: about a tenth of a second for each hundred rows.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { cellReader, decimal, readCsv } from "../../domain/csv.ts";
import { atMost, barOf, unmeasured, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { fitSteps, rowsToMeasure, stepScope, type StepRow } from "./step-fit.ts";

type Row = StepRow;

interface Fitted {
  readonly name: string;
  readonly rows: number;
  readonly error: number;
  readonly alphaS: number;
  readonly betaS: number;
  readonly overlap: number;
}

export interface Fits {
  readonly bars: readonly Bar[];
  readonly tables: readonly BenchTable[];
}

/** `rubickDir` comes with Orbweaver; profiles of Sia are read where the user has them, for their licence is not stated. */
export function measureFits(rubickDir: string, profilesDir: string | undefined): Fits {
  const rubick = filesOf(rubickDir).flatMap((file) =>
    [...plansOf(readFileSync(file, "utf8"))].flatMap(
      ([plan, rows]) =>
        fitted(`${basename(file).replace("-placements.csv", "")} ${plan}`, rows) ?? [],
    ),
  );
  const siaDir = profilesDir === undefined ? undefined : join(profilesDir, "sia");
  const sia =
    siaDir === undefined || !existsSync(siaDir)
      ? []
      : readdirSync(siaDir)
          .sort()
          .flatMap((app) =>
            filesOf(join(siaDir, app)).flatMap(
              (file) =>
                fitted(
                  `${app} ${basename(file).replace(/^placements-?|\.csv$/g, "")}`,
                  siaRows(readFileSync(file, "utf8")),
                ) ?? [],
            ),
          );
  const figure = { unit: "%", wish: atMost(10), paper: 5 };
  const bar = (id: string, found: readonly Fitted[], note: string): Bar =>
    found.length === 0
      ? unmeasured({ ...figure, id }, "no profile was given; --profiles names their folder")
      : barOf({ ...figure, id, got: 100 * mean(found.map(({ error }) => error)), note });
  return {
    bars: [
      bar("step-error-rubick", rubick, "5 rows for each model and execution plan; mean over them"),
      bar("step-error-sia", sia, "5 rows for each application and cluster; mean over them"),
    ],
    tables: [tableOf("Rubick", rubick), tableOf("Sia", sia)].filter(({ rows }) => rows.length > 0),
  };
}

const tableOf = (title: string, found: readonly Fitted[]): BenchTable => ({
  title: `Step time where it was not fitted, ${title}`,
  columns: ["PROFILE", "ROWS", "MEAN ERROR", "α S", "β S", "γ"],
  rows: found.map(({ name, rows, error, alphaS, betaS, overlap }) => [
    name,
    String(rows),
    `${(100 * error).toFixed(1)} %`,
    alphaS.toFixed(3),
    betaS.toFixed(4),
    overlap.toFixed(2),
  ]),
});

const filesOf = (dir: string): readonly string[] =>
  readdirSync(dir)
    .filter((file) => /placements.*\.csv$/.test(file))
    .sort()
    .map((file) => join(dir, file));

function siaRows(text: string): readonly Row[] {
  const csv = readCsv(text);
  const cell = cellReader(csv);
  return csv.rows.flatMap((row): Row[] => {
    const [load, stepS] = ["local_bsz", "step_time"].map((name) => decimal(cell(row, name)));
    const hosts = hostsOf(cell(row, "placement"));
    return load === undefined || stepS === undefined || hosts.length === 0
      ? []
      : [{ hosts, load, stepS }];
  });
}

/** Plans of named kinds; three-digit plans have one row a placement and say nothing about another one. */
function plansOf(text: string): ReadonlyMap<string, readonly Row[]> {
  const csv = readCsv(text);
  const cell = cellReader(csv);
  const plans = new Map<string, Row[]>();
  for (const row of csv.rows) {
    const [plan, stepS] = [cell(row, "exec_plan"), decimal(cell(row, "iter_time"))];
    const hosts = hostsOf(cell(row, "placement"));
    if (/^\d+$/.test(plan) || stepS === undefined || hosts.length === 0) continue;
    plans.set(plan, [...(plans.get(plan) ?? []), { hosts, load: 1 / total(hosts), stepS }]);
  }
  return plans;
}

const hostsOf = (digits: string): readonly number[] =>
  /^[1-9]+$/.test(digits) ? [...digits].map(Number) : [];

const total = (hosts: readonly number[]): number => hosts.reduce((sum, gpus) => sum + gpus, 0);

/** Rows that fit a profile. */
const MEASURED = 5;

function fitted(name: string, rows: readonly Row[]): Fitted | undefined {
  if (rows.length <= MEASURED) return undefined;
  const chosen = rowsToMeasure(rows, MEASURED);
  const { predict, alphaS, betaS, overlap } = fitSteps(
    chosen.flatMap((at) => rows[at] ?? []),
    stepScope(rows),
  );
  const judged = rows.filter((_, at) => !chosen.includes(at));
  const error = mean(judged.map((row) => Math.abs(predict(row) - row.stepS) / row.stepS));
  return { name, rows: judged.length, error, alphaS, betaS, overlap };
}
