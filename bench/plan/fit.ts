/**
 * @file How far the step-time model is off where it was not fitted: five rows of a profile fit it, all others judge it.
 *
 * Profiles vary batch and placement, or (Rubick) placement at one global batch. Step = (compute^γ + sync^γ)^(1/γ): compute a + c × batch (a + c / GPUs at one
 * global batch), sync β₁(k − 1) within a host of k GPUs, α + β₂(K − 2) over K hosts, γ ≥ 1 the overlap. Rows are chosen by rule before any
 * error is looked at: the smallest placement with the smallest and the largest batch, then with the middle batch the largest placement of one host, the smallest
 * over two hosts and the one over most hosts (at one global batch: one GPU, a whole host, two whole hosts, and most hosts). α, β and γ go through those rows; γ is the one whose sync agrees best with the sync that the same rows report.
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { cellReader, decimal, readCsv } from "../../domain/csv.ts";
import { atMost, barOf, unmeasured, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";

interface Row {
  /** GPUs of each host. */
  readonly hosts: readonly number[];
  /** Samples a GPU, or 1 / GPUs at one global batch. */
  readonly load: number;
  readonly stepS: number;
  readonly syncS?: number;
}

interface Fitted {
  readonly name: string;
  readonly rows: number;
  readonly error: number;
  readonly alphaS: number;
  readonly betaS: readonly [inside: number, over: number];
  readonly overlap: number;
}

const OVERLAPS = [1, 1.25, 1.5, 2, 3, 5];

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
  columns: ["PROFILE", "ROWS", "MEAN ERROR", "α S", "β HOST S", "β OVER S", "γ"],
  rows: found.map(({ name, rows, error, alphaS, betaS, overlap }) => [
    name,
    String(rows),
    `${(100 * error).toFixed(1)} %`,
    alphaS.toFixed(3),
    betaS[0].toFixed(3),
    betaS[1].toFixed(3),
    String(overlap),
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
    const [load, stepS, syncS] = ["local_bsz", "step_time", "sync_time"].map((name) =>
      decimal(cell(row, name)),
    );
    const hosts = hostsOf(cell(row, "placement"));
    return load === undefined || stepS === undefined || syncS === undefined || hosts.length === 0
      ? []
      : [{ hosts, load, stepS, syncS }];
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

function fitted(name: string, rows: readonly Row[]): Fitted | undefined {
  const chosen = chosenRows(rows);
  const [first, second, ...others] = chosen;
  if (first === undefined || second === undefined || rows.length <= chosen.length) return undefined;
  const slope =
    second.load === first.load
      ? 0
      : Math.max(0, (second.stepS - first.stepS) / (second.load - first.load));
  const base = Math.max(0, first.stepS - slope * first.load);
  let best: { readonly off: number; readonly fit: Fitted } | undefined;
  for (const overlap of OVERLAPS) {
    const computeS = ({ load }: Row): number => base + slope * load;
    const hidden = (row: Row): number =>
      Math.max(0, row.stepS ** overlap - computeS(row) ** overlap) ** (1 / overlap);
    const inside = others.find(({ hosts }) => hosts.length === 1);
    const perGpu = inside === undefined ? 0 : hidden(inside) / (Math.max(...inside.hosts) - 1);
    const ofHost = ({ hosts }: Row): number => perGpu * (Math.max(...hosts) - 1);
    const few = others.find(({ hosts }) => hosts.length > 1);
    const many = others.find((row) => row !== few && row.hosts.length > 2);
    const alphaS = few === undefined ? 0 : Math.max(0, hidden(few) - ofHost(few));
    const over =
      many === undefined
        ? 0
        : Math.max(0, (hidden(many) - ofHost(many) - alphaS) / (many.hosts.length - 2));
    const syncS = (row: Row): number =>
      ofHost(row) + (row.hosts.length > 1 ? alphaS + over * (row.hosts.length - 2) : 0);
    const stepS = (row: Row): number =>
      (computeS(row) ** overlap + syncS(row) ** overlap) ** (1 / overlap);
    const off = others.reduce(
      (sum, row) => sum + Math.abs(syncS(row) - (row.syncS ?? syncS(row))),
      0,
    );
    const judged = rows.filter((row) => !chosen.includes(row));
    const error = mean(judged.map((row) => Math.abs(stepS(row) - row.stepS) / row.stepS));
    const fit = {
      name,
      rows: judged.length,
      error,
      alphaS,
      betaS: [perGpu, over] as const,
      overlap,
    };
    if (best === undefined || off < best.off) best = { off, fit };
  }
  return best?.fit;
}

function chosenRows(rows: readonly Row[]): readonly Row[] {
  const loads = [...new Set(rows.map(({ load }) => load))].sort((a, b) => a - b);
  const middle = loads[Math.floor(loads.length / 2)] ?? 0;
  const near = (own: readonly Row[], load: number): Row | undefined =>
    [...own].sort((a, b) => Math.abs(a.load - load) - Math.abs(b.load - load))[0];
  const single = rows.filter(({ hosts }) => hosts.length === 1);
  const spread = rows.filter(({ hosts }) => hosts.length > 1);
  const least = Math.min(...single.map(({ hosts }) => total(hosts)));
  const most = Math.max(...single.map(({ hosts }) => total(hosts)));
  const alone = single.filter(({ hosts }) => total(hosts) === least);
  const whole = single.filter(({ hosts }) => total(hosts) === most);
  const isOneBatch = new Set(alone.map(({ load }) => load)).size === 1;
  // At one global batch GPUs and load go together: of two hosts the fullest, and a whole host as the second row.
  const bySize = (a: Row, b: Row): number =>
    isOneBatch ? total(b.hosts) - total(a.hosts) : total(a.hosts) - total(b.hosts);
  const unevenness = ({ hosts }: Row): number => Math.max(...hosts) - Math.min(...hosts);
  const bySpread = [...spread].sort(
    (a, b) => a.hosts.length - b.hosts.length || bySize(a, b) || unevenness(a) - unevenness(b),
  );
  const same = (row: Row | undefined): readonly Row[] =>
    spread.filter(({ hosts }) => hosts.join() === row?.hosts.join());
  const second = isOneBatch ? near(whole, 0) : near(alone, loads.at(-1) ?? 0);
  const picked = [
    near(alone, loads[0] ?? 0),
    second,
    near(whole, middle),
    near(same(bySpread[0]), middle),
    near(same(bySpread.at(-1)), middle),
  ];
  return [...new Set(picked.filter((row) => row !== undefined))];
}
