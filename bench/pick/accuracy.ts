/**
 * @file How exactly the surrogates predict, and what it costs to train them: the paper's §5.2 and §5.5.1 (figures 5 and 9).
 *
 * For each cluster, number of samples and seed: R² and MAPE on sets over several hosts that the model was not shown (of the measured
 * cluster all the rest, of a mixed one five times as many as it was trained on). Ours stands beside ours without its memory of
 * residuals, ours trained and asked without the clamp, boosted trees, nearest neighbours, and the flat Transformer of the ablation.
 * Times are processor time, because the machine may be shared; wall time stands beside it.
 */

import type { BandwidthPredictor } from "../../domain/bandwidth/bandwidth-port.ts";
import { trainBoostedTrees } from "../../models/bandwidth/boosted-trees.ts";
import { trainFlatSurrogate } from "../../models/bandwidth/flat-surrogate.ts";
import { nearestNeighbour } from "../../models/bandwidth/nearest-neighbour.ts";
import {
  accuracyOf,
  openSyncPredictor,
  trainSurrogate,
  type Accuracy,
  type SurrogateModel,
} from "../../models/bandwidth/surrogate.ts";
import { atLeast, atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { PAPER_SAMPLES } from "./compare.ts";
import { timed, type Took, type Trainings } from "./trained.ts";
import { PRODUCT_WAY, type TrainingWay } from "./training-sets.ts";
import type { Truth } from "./truth.ts";

interface AccuracyPlan {
  readonly samples: readonly number[];
  readonly seeds: readonly number[];
  /** How the training sets are chosen; rivals and times on the first way only. */
  readonly training: readonly [TrainingWay, ...TrainingWay[]];
  /** Trained at the size at which the paper compares, and for the first seed: a token for each GPU makes its steps dear. */
  readonly withFlat: boolean;
  readonly trainings: Trainings;
  readonly say: (line: string) => void;
}

export interface AccuracyFigure extends Accuracy {
  readonly cluster: string;
  readonly model: string;
  readonly samples: number;
  readonly training: TrainingWay;
  readonly seed: number;
}

interface TrainingTime extends Took {
  readonly what: "from nothing" | "fine-tuning";
}

export interface AccuracyFound {
  readonly figures: readonly AccuracyFigure[];
  readonly times: readonly TrainingTime[];
}

/** Jobs whose measurements a fine-tuning is timed with. */
const FINE_TUNED_ON = 100;

export async function measureAccuracy(truth: Truth, plan: AccuracyPlan): Promise<AccuracyFound> {
  const figures: AccuracyFigure[] = [];
  const times: TrainingTime[] = [];
  for (const samples of plan.samples)
    for (const seed of plan.seeds)
      for (const training of plan.training) {
        const split = { samples, seed, training };
        const which = `${truth.name}, seed ${String(seed)}, ${String(samples)} ${training} sets`;
        plan.say(`pick: accuracy on ${which}`);
        const { train, test, model, took } = await plan.trainings(truth, split);
        times.push({ what: "from nothing", ...took });
        const cluster = truth.name;
        const enter = (model: string, predictor: BandwidthPredictor): void => {
          const accuracy = accuracyOf(predictor, test);
          figures.push({ cluster, model, samples, training, seed, ...accuracy });
        };
        const request = { domain: truth.domain, samples: train, seed };
        const open = (of: SurrogateModel, options = {}): BandwidthPredictor =>
          openSyncPredictor(of, truth.domain, options);
        enter("ours", open(model));
        if (training !== plan.training[0] || samples !== PAPER_SAMPLES) continue;
        const again = { ...request, samples: train.slice(0, FINE_TUNED_ON), from: model };
        const { cpuMs, wallMs } = await timed(() => trainSurrogate(again));
        times.push({ what: "fine-tuning", cpuMs, wallMs });
        enter("ours, no memory", open(model, { memory: false }));
        enter(
          "ours, no clamp",
          open((await plan.trainings(truth, { ...split, isBare: true })).model),
        );
        enter("boosted trees", trainBoostedTrees(request));
        enter("nearest neighbour", nearestNeighbour(request));
        if (!plan.withFlat || seed !== plan.seeds[0]) continue;
        plan.say(`pick: flat Transformer on ${which}`);
        enter("flat Transformer", await trainFlatSurrogate(request));
      }
  return { figures, times };
}

/** Means over the seeds, and the worst. */
export function accuracyTable(cluster: string, figures: readonly AccuracyFigure[]): BenchTable {
  const groups = new Map<string, AccuracyFigure[]>();
  for (const figure of figures) {
    if (figure.cluster !== cluster) continue;
    const key = `${figure.model}, ${String(figure.samples)} ${figure.training}`;
    groups.set(key, [...(groups.get(key) ?? []), figure]);
  }
  return {
    title: `${cluster}: predictions of sets that the model was not shown`,
    columns: ["MODEL", "R²", "WORST", "MAPE %", "WORST"],
    rows: [...groups].map(([name, group]) => {
      const r2 = group.map((figure) => figure.r2);
      const mape = group.map((figure) => figure.mapePercent);
      return [
        name,
        mean(r2).toFixed(3),
        Math.min(...r2).toFixed(3),
        mean(mape).toFixed(2),
        Math.max(...mape).toFixed(2),
      ];
    }),
  };
}

interface AccuracySettings {
  readonly r2: number;
  readonly mapePercent: number;
}

const MEASURED_DEMAND: AccuracySettings = { r2: 0.95, mapePercent: 5 };
const MIXED_DEMAND: AccuracySettings = { r2: 0.97, mapePercent: 4 };

/** At the paper's size, from the sets that the product measures. */
export function accuracyBars(truth: Truth, figures: readonly AccuracyFigure[]): readonly Bar[] {
  const target = truth.samples.length > 0 ? MEASURED_DEMAND : MIXED_DEMAND;
  const ours = figures.filter(
    ({ cluster, model, samples }) =>
      cluster === truth.name && model === "ours" && samples === PAPER_SAMPLES,
  );
  return [...new Set(ours.map(({ training }) => training))].flatMap((way) => {
    const own = ours.filter(({ training }) => training === way);
    const isEvaluated = way === PRODUCT_WAY;
    const name = truth.name.toLowerCase();
    const r2 = own.map((figure) => figure.r2);
    const mape = own.map((figure) => figure.mapePercent);
    return [
      barOf({
        id: `${name} R2 ${way}`,
        unit: "",
        target: isEvaluated ? atLeast(target.r2) : REPORTED,
        got: mean(r2),
        note: `worst of ${String(own.length)} seeds ${Math.min(...r2).toFixed(3)}`,
      }),
      barOf({
        id: `${name} MAPE ${way}`,
        unit: "%",
        target: isEvaluated ? atMost(target.mapePercent) : REPORTED,
        got: mean(mape),
        note: `worst of ${String(own.length)} seeds ${Math.max(...mape).toFixed(2)}`,
      }),
    ];
  });
}

export function trainingBars(times: readonly TrainingTime[]): readonly Bar[] {
  const limits = { "from nothing": 5_000, "fine-tuning": 1_000 } as const;
  return (["from nothing", "fine-tuning"] as const).map((what) => {
    const own = times.filter((time) => time.what === what);
    const wallMs = mean(own.map((time) => time.wallMs));
    return barOf({
      id: `training ${what}`,
      unit: "ms CPU",
      target: atMost(limits[what]),
      got: mean(own.map(({ cpuMs }) => cpuMs)),
      note: `mean of ${String(own.length)}; wall ${wallMs.toFixed(0)} ms on this machine`,
    });
  });
}
