/** @file `bench pick --fabric`: the fabrics one after the other, as bars and tables. */

import { atLeast, atMost, barOf, REPORTED, type Bar } from "../../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../../bench.ts";
import { calibration } from "../../fabric/calibration.ts";
import type { FabricSpec } from "../../fabric/fabric-file.ts";
import { mean, quantile } from "../../statistics.ts";
import {
  judgeFabric,
  KNOWING,
  OURS,
  TOPOLOGY,
  type AtScaleFound,
  type JudgedPick,
} from "./at-scale.ts";
import { readFabrics } from "./fabrics.ts";

const PATIENCE = 400;
const LEAST_OF_ORACLE = 97;
const LEAST_OVER_TOPOLOGY = 1.05;
const MOST_MS = 50;
/** The cluster at which the time of a pick has its bar. */
const LARGE_GPUS = 4_096;

export async function runAtScale(fabrics: string, request: BenchRequest): Promise<BenchAnswer> {
  const specs = readFabrics(fabrics);
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const gpus = request.size("gpus");
  for (const spec of specs) {
    const found: AtScaleFound[] = [];
    for (let at = 0; at < request.size("seeds"); at += 1) {
      const seed = request.seed + at;
      found.push(
        await judgeFabric(spec, {
          gpus,
          seed,
          samples: request.size("samples") || USUAL_SAMPLES,
          states: request.size("states"),
          randomSets: request.size("random-sets"),
          patience: PATIENCE,
          timed: request.size("decisions"),
          say: (line) => {
            request.interrupted.throwIfAborted();
            request.say(`pick: ${spec.name}, ${String(gpus)} GPUs, seed ${String(seed)}, ${line}`);
          },
        }),
      );
    }
    bars.push(...barsOf(spec, { gpus, found }));
    tables.push(tableOf(`${spec.name}, ${String(gpus)} GPUs`, found));
    tables.push(...calibrationTable(spec));
  }
  return { bars, tables };
}

const USUAL_SAMPLES = 250;

interface Found {
  readonly gpus: number;
  readonly found: readonly AtScaleFound[];
}

function barsOf({ name }: FabricSpec, { gpus, found }: Found): readonly Bar[] {
  const picks = found.flatMap((one) => one.picks);
  const ours = of(picks, OURS);
  const topology = of(picks, TOPOLOGY);
  const couldGain = mean(topology.map(({ gbs, bestGbs }) => bestGbs / gbs));
  const isUneven = couldGain >= LEAST_OVER_TOPOLOGY;
  const at = `${name}, ${String(gpus)}`;
  const times = found.flatMap((one) => one.pickMs);
  const expected = mean(ours.map(expectedPercent));
  const oursOfBound = (100 * expected) / mean(of(picks, KNOWING).map(expectedPercent));
  return [
    barOf({
      id: `${at}: ours ÷ oracle`,
      unit: "%",
      target: atLeast(LEAST_OF_ORACLE),
      got: mean(ours.map(percent)),
      note: `achieved bandwidth, mean of ${String(ours.length)} picks; worst ${Math.min(...ours.map(percent)).toFixed(1)} %; sum over sum ${(100 * ratio(ours, ({ bestGbs }) => bestGbs)).toFixed(1)} %`,
    }),
    barOf({
      id: `${at}: bound without paths ÷ oracle`,
      unit: "%",
      target: REPORTED,
      got: mean(of(picks, KNOWING).map(expectedPercent)),
      note: `expected over other hashes of a picker that knows cards, faults and neighbours, but no path; ours there ${expected.toFixed(1)} %, ${oursOfBound.toFixed(1)} % of it`,
    }),
    barOf({
      id: `${at}: ours ÷ topology`,
      unit: "×",
      target: isUneven ? atLeast(LEAST_OVER_TOPOLOGY) : REPORTED,
      got: mean(ours.map(({ gbs }, pick) => gbs / (topology[pick]?.gbs ?? NaN))),
      note: `achieved bandwidth; oracle ÷ topology alone ${couldGain.toFixed(3)}: ${isUneven ? "uneven" : "even"}`,
    }),
    barOf({
      id: `pick p99 ${String(gpus)}, ${name}`,
      unit: "ms CPU",
      target: gpus >= LARGE_GPUS ? atMost(MOST_MS) : REPORTED,
      got: quantile(times, 0.99),
      note: `${String(times.length)} picks, p50 ${quantile(times, 0.5).toFixed(1)} ms`,
    }),
  ];
}

const of = (picks: readonly JudgedPick[], wanted: string): readonly JudgedPick[] =>
  picks.filter(({ entrant }) => entrant === wanted);

const percent = ({ gbs, bestGbs }: JudgedPick): number => (100 * gbs) / bestGbs;

const expectedPercent = ({ expectedGbs, bestGbs }: JudgedPick): number =>
  (100 * expectedGbs) / bestGbs;

const ratio = (picks: readonly JudgedPick[], to: (pick: JudgedPick) => number): number =>
  mean(picks.map(({ gbs }) => gbs)) / mean(picks.map(to));

function tableOf(title: string, found: readonly AtScaleFound[]): BenchTable {
  const picks = found.flatMap((one) => one.picks);
  const topology = of(picks, TOPOLOGY);
  const rows = [...new Set(picks.map(({ entrant }) => entrant))].map((entrant) => {
    const own = of(picks, entrant);
    const over = own.map(({ gbs }, at) => gbs / (topology[at]?.gbs ?? NaN));
    return [
      entrant,
      mean(own.map(percent)).toFixed(1),
      Math.min(...own.map(percent)).toFixed(1),
      mean(own.map(expectedPercent)).toFixed(1),
      mean(over).toFixed(3),
      mean(own.map(({ gbs }) => gbs)).toFixed(1),
    ];
  });
  const columns = ["chosen by", "÷ oracle, %", "worst, %", "other hashes", "÷ topology", "GB/s"];
  return { title: `achieved on ${title}`, columns, rows };
}

function calibrationTable(spec: FabricSpec): readonly BenchTable[] {
  const rows = calibration(spec).map(({ what, measured, truth, unit }) => [
    `${what} (${unit})`,
    measured.toFixed(1),
    truth.toFixed(1),
    (100 * (truth / measured - 1)).toFixed(1),
  ]);
  if (rows.length === 0) return [];
  const columns = ["public log", "measured", "truth", "error, %"];
  return [{ title: `the truth of ${spec.name} beside public logs`, columns, rows }];
}
