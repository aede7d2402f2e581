/**
 * @file The error of the step-time model on held-out rows: five rows of a profile fit it, all others test it.
 *
 * Profiles vary batch and placement, or (Rubick) placement at one global batch. The model and its priors are in `step-model.ts`, the rule that chooses the rows in `step-fit.ts`; no
 * time is looked at before the rows are chosen. An execution plan of Rubick's is a programme of its own, so five rows fit one; what five rows for all plans of a model
 * give is reported beside it. Cost: about a second for all profiles.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { cellReader, decimal, readCsv } from "../../domain/values/csv.ts";
import { atMost, barOf, REPORTED, unmeasured, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { fitSteps, rowsToMeasure } from "./step-fit.ts";
import { gpusOf, stepScope, type StepRow } from "./step-model.ts";

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
  const models = filesOf(rubickDir).map((file) => ({
    model: basename(file).replace("-placements.csv", ""),
    plans: plansOf(readFileSync(file, "utf8")),
  }));
  const rubick = models.flatMap(({ model, plans }) =>
    [...plans].flatMap(([plan, rows]) => fitted(`${model} ${plan}`, rows) ?? []),
  );
  const together = models.flatMap(({ model, plans }) => {
    const rows = [...plans.values()].flatMap((own, plan) => own.map((row) => ({ ...row, plan })));
    return fitted(`${model}, all plans`, rows) ?? [];
  });
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
  const figure = { unit: "%", target: atMost(10), paper: 5 };
  const errorOf = (found: readonly Fitted[]): number => 100 * mean(found.map(({ error }) => error));
  const bar = (id: string, found: readonly Fitted[], note: string): Bar =>
    found.length === 0
      ? unmeasured({ ...figure, id }, "no profile was given; --profiles names their folder")
      : barOf({ ...figure, id, got: errorOf(found), note });
  return {
    bars: [
      bar("step-error-rubick", rubick, "5 rows for each model and execution plan; mean over them"),
      barOf({
        ...figure,
        target: REPORTED,
        id: "step-error-rubick-plans-together",
        got: errorOf(together),
        note: "5 rows for all execution plans of a model",
      }),
      bar("step-error-sia", sia, "5 rows for each application and cluster; mean over them"),
    ],
    tables: [tableOf("Rubick", [...rubick, ...together]), tableOf("Sia", sia)].filter(
      ({ rows }) => rows.length > 0,
    ),
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

function siaRows(text: string): readonly StepRow[] {
  const csv = readCsv(text);
  const cell = cellReader(csv);
  return csv.rows.flatMap((row): StepRow[] => {
    const [load, stepS] = ["local_bsz", "step_time"].map((name) => decimal(cell(row, name)));
    const hosts = hostsOf(cell(row, "placement"));
    return load === undefined || stepS === undefined || hosts.length === 0
      ? []
      : [{ hosts, load, stepS }];
  });
}

/** Plans of named kinds; three-digit plans have one row a placement and say nothing about another one. */
function plansOf(text: string): ReadonlyMap<string, readonly StepRow[]> {
  const csv = readCsv(text);
  const cell = cellReader(csv);
  const plans = new Map<string, StepRow[]>();
  for (const row of csv.rows) {
    const [plan, stepS] = [cell(row, "exec_plan"), decimal(cell(row, "iter_time"))];
    const hosts = hostsOf(cell(row, "placement"));
    if (/^\d+$/.test(plan) || stepS === undefined || hosts.length === 0) continue;
    plans.set(plan, [...(plans.get(plan) ?? []), { hosts, load: 1 / gpusOf(hosts), stepS }]);
  }
  return plans;
}

const hostsOf = (digits: string): readonly number[] =>
  /^[1-9]+$/.test(digits) ? [...digits].map(Number) : [];

/** Rows that fit a profile. */
const MEASURED = 5;

function fitted(name: string, rows: readonly StepRow[]): Fitted | undefined {
  if (rows.length <= MEASURED) return undefined;
  const scope = stepScope(rows);
  const chosen = rowsToMeasure(rows, MEASURED, scope);
  const { predict, alphaS, betaS, overlap } = fitSteps(
    chosen.flatMap((at) => rows[at] ?? []),
    scope,
  );
  const judged = rows.filter((_, at) => !chosen.includes(at));
  const error = mean(judged.map((row) => Math.abs(predict(row) - row.stepS) / row.stepS));
  return { name, rows: judged.length, error, alphaS, betaS, overlap };
}
