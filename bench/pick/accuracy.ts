/**
 * @file How exactly the surrogates predict, and what it costs to train them: the paper's §5.2 and §5.5.1 (figures 5 and 9).
 *
 * For each cluster, number of samples and seed: R² and MAPE on sets over several hosts that the model was not shown (of the measured
 * cluster all the rest, of a mixed one five times as many as it was trained on). Ours stands beside ours without its memory of
 * residuals, ours trained and asked without the clamp, boosted trees, nearest neighbours, and the flat Transformer of the ablation.
 * Times are processor time, because the machine may be shared; wall time stands beside it.
 */

import type { BandwidthPredictor, BandwidthSample } from "../../domain/bandwidth-port.ts";
import { randomFrom } from "../../lib/random.ts";
import { trainBoostedTrees } from "../../models/boosted-trees.ts";
import { trainFlatSurrogate } from "../../models/flat-surrogate.ts";
import { nearestNeighbour } from "../../models/nearest-neighbour.ts";
import {
  accuracyOf,
  openSyncPredictor,
  trainSurrogate,
  type Accuracy,
  type SurrogateModel,
} from "../../models/surrogate.ts";
import { trainingSets } from "../../models/training-sets.ts";
import { atMost, barOf, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import type { Truth } from "./truth.ts";

export interface AccuracyPlan {
  readonly samples: readonly number[];
  readonly seeds: readonly number[];
  /**
   * `drawn`: training sets as the paper's, at random. `chosen`: of a mixed cluster those that teach most (`models/training-sets.ts`);
   * the test sets are the same.
   */
  readonly training: "drawn" | "chosen";
  /** The flat Transformer's steps are dear: a token for each GPU. */
  readonly withFlat: boolean;
  readonly say: (line: string) => void;
}

export interface AccuracyFigure extends Accuracy {
  readonly cluster: string;
  readonly model: string;
  readonly samples: number;
  readonly seed: number;
}

export interface TrainingTime {
  readonly what: "from nothing" | "fine-tuning";
  readonly cpuMs: number;
  readonly wallMs: number;
}

export interface AccuracyFound {
  readonly figures: readonly AccuracyFigure[];
  readonly times: readonly TrainingTime[];
}

/** Of a mixed cluster's test sets against its training sets, as the paper has it. */
const TEST_FOLD = 5;
/** More than any measured cluster has. */
const ALL = 1_000_000;
/** Jobs whose measurements a fine-tuning is timed with. */
const FINE_TUNED_ON = 100;

export async function measureAccuracy(truth: Truth, plan: AccuracyPlan): Promise<AccuracyFound> {
  const figures: AccuracyFigure[] = [];
  const times: TrainingTime[] = [];
  for (const samples of plan.samples) {
    for (const seed of plan.seeds) {
      plan.say(`accuracy: ${truth.name}, ${String(samples)} samples, seed ${String(seed)}`);
      const { train, test } = splitFor(truth, { samples, seed, training: plan.training });
      const enter = (model: string, predictor: BandwidthPredictor): void => {
        figures.push({ cluster: truth.name, model, samples, seed, ...accuracyOf(predictor, test) });
      };
      const request = { domain: truth.domain, samples: train, seed };
      const ours = await timed("from nothing", times, () => trainSurrogate(request));
      await timed("fine-tuning", times, () =>
        trainSurrogate({ ...request, samples: train.slice(0, FINE_TUNED_ON), from: ours }),
      );
      const open = (model: SurrogateModel, options = {}): BandwidthPredictor =>
        openSyncPredictor(model, truth.domain, options);
      enter("ours", open(ours));
      enter("ours, no memory", open(ours, { memory: false }));
      enter("ours, no clamp", open(await trainSurrogate({ ...request, clamp: false })));
      enter("boosted trees", trainBoostedTrees(request));
      enter("nearest neighbour", nearestNeighbour(request));
      if (plan.withFlat) enter("flat Transformer", await trainFlatSurrogate(request));
    }
  }
  return { figures, times };
}

/** Means over the seeds, and the worst. */
export function accuracyTable(cluster: string, figures: readonly AccuracyFigure[]): BenchTable {
  const groups = new Map<string, AccuracyFigure[]>();
  for (const figure of figures) {
    if (figure.cluster !== cluster) continue;
    const key = `${figure.model}, n = ${String(figure.samples)}`;
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

export function trainingBars(times: readonly TrainingTime[]): readonly Bar[] {
  const limits = { "from nothing": 5_000, "fine-tuning": 1_000 } as const;
  return (["from nothing", "fine-tuning"] as const).map((what) => {
    const own = times.filter((time) => time.what === what);
    const wallMs = mean(own.map((time) => time.wallMs));
    return barOf({
      id: `training ${what}`,
      unit: "ms CPU",
      wish: atMost(limits[what]),
      got: mean(own.map(({ cpuMs }) => cpuMs)),
      note: `mean of ${String(own.length)}; wall ${wallMs.toFixed(0)} ms on this machine`,
    });
  });
}

function splitFor(
  truth: Truth,
  { samples, seed, training }: Pick<AccuracyPlan, "training"> & { samples: number; seed: number },
): { readonly train: readonly BandwidthSample[]; readonly test: readonly BandwidthSample[] } {
  const random = randomFrom(seed, `accuracy ${truth.name}`);
  const isMeasured = truth.samples.length > 0;
  const drawn = truth.draw(isMeasured ? ALL : samples * (1 + TEST_FOLD), random.stream("sets"));
  const test = drawn.slice(samples);
  if (isMeasured || training === "drawn") return { train: drawn.slice(0, samples), test };
  const sets = trainingSets(truth.domain, { count: samples, random: random.stream("chosen") });
  const train = sets.flatMap((shares) => {
    const gbs = truth.gbs(shares);
    return gbs === undefined ? [] : [{ shares, gbs }];
  });
  const known = new Set(train.map(({ shares }) => JSON.stringify(shares)));
  return { train, test: test.filter(({ shares }) => !known.has(JSON.stringify(shares))) };
}

async function timed<Result>(
  what: TrainingTime["what"],
  times: TrainingTime[],
  work: () => Promise<Result>,
): Promise<Result> {
  const cpu = process.cpuUsage();
  const start = performance.now();
  const result = await work();
  const { user, system } = process.cpuUsage(cpu);
  times.push({ what, cpuMs: (user + system) / 1_000, wallMs: performance.now() - start });
  return result;
}

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
