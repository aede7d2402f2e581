/**
 * @file All dispatchers on the same scenarios of one cluster, for every seed: the paper's figures 6, 7 and 10 and its table 2.
 *
 * A seed draws the scenarios and the training set and starts the training. Rivals that need no model are there once a seed; models
 * for each size of training set. The size at which the paper compares (250) has all searches and all models.
 */

import type { BandwidthPredictor } from "../../domain/bandwidth/bandwidth-port.ts";
import { randomFrom } from "../../lib/random.ts";
import { trainBoostedTrees } from "../../models/bandwidth/boosted-trees.ts";
import { nearestNeighbour } from "../../models/bandwidth/nearest-neighbour.ts";
import { accuracyOf, openSyncPredictor } from "../../models/bandwidth/surrogate.ts";
import { eha } from "../../scheduling/pick/balanced.ts";
import { hybrid } from "../rivals/pick/hybrid.ts";
import { pts } from "../rivals/pick/pruned-tree.ts";
import { searchPick } from "../../scheduling/pick/search-pick.ts";
import type { LinksByType } from "./links.ts";
import { bestGbs, judge, searching, truthPredictor, type Field, type Judged } from "./protocol.ts";
import {
  defaultById,
  defaultNumaFirst,
  randomChoice,
  topo,
  topoAny,
  type Dispatcher,
} from "./rivals.ts";
import { scenariosOf, type ScenarioSizes } from "./scenarios.ts";
import type { Trainings } from "./trained.ts";
import { PRODUCT_WAY, type TrainingWay } from "./training-sets.ts";
import { countsKey, type Truth } from "./truth.ts";

/** At which the paper compares dispatchers. */
export const PAPER_SAMPLES = 250;

interface ComparePlan {
  readonly links: LinksByType;
  readonly sizes: ScenarioSizes;
  readonly samples: readonly number[];
  /** On which sets the models are trained; the ablations on the product's, or the first, only. */
  readonly training: readonly TrainingWay[];
  readonly trainings: Trainings;
  readonly say: (line: string) => void;
}

/** One dispatcher on the scenarios of one seed. */
export interface Run {
  readonly name: string;
  /** Size of the training set; 0 of those that learn nothing. */
  readonly samples: number;
  /** Absent of those that learn nothing. */
  readonly training?: TrainingWay;
  readonly judged: readonly Judged[];
  /** The shapes that it was trained on (`countsKey`); absent of those that learn nothing. */
  readonly known?: ReadonlySet<string>;
}

interface ModelFigures {
  readonly name: string;
  readonly samples: number;
  readonly training: TrainingWay;
  readonly r2: number;
  readonly mapePercent: number;
  /** Of the whole process. */
  readonly cpuMs: number;
}

type Learned = Pick<ModelFigures, "samples" | "training">;

export interface Compared {
  readonly runs: readonly Run[];
  readonly models: readonly ModelFigures[];
}

export async function compareOn(truth: Truth, seed: number, plan: ComparePlan): Promise<Compared> {
  const { domain } = truth;
  const random = randomFrom(seed, truth.name);
  const scenarios = scenariosOf(domain, plan.sizes, random.stream("scenarios"));
  const field: Field = { truth, scenarios, best: bestGbs(truth, scenarios) };
  const runs: Run[] = [];
  const models: ModelFigures[] = [];
  const compact = topo(domain, plan.links);
  const say = (what: string): void => {
    plan.say(`pick: ${truth.name}, seed ${String(seed)}, ${what}`);
  };
  const enter = (
    name: string,
    dispatch: Dispatcher,
    learned?: Learned & Pick<Run, "known">,
  ): void => {
    runs.push({ name, samples: 0, ...learned, judged: judge(field, dispatch) });
  };
  const all = truthPredictor(truth);
  say("those that learn nothing");
  enter("Random", randomChoice(random.stream("Random")));
  enter("Default by id", defaultById);
  enter("Default NUMA first", defaultNumaFirst(domain, plan.links));
  enter("Topo", compact);
  enter("Topo, any", topoAny(domain, plan.links, random.stream("Topo")));
  enter("EHA, true values", searching(eha, all, compact));
  enter("Ideal-BP", searching(hybrid, all, compact));
  const main = plan.training.includes(PRODUCT_WAY) ? PRODUCT_WAY : plan.training[0];
  for (const samples of plan.samples)
    for (const training of plan.training) {
      const learned = { samples, training };
      say(`ours from ${String(samples)} ${training} sets`);
      const { train, test, model, took } = await plan.trainings(truth, { ...learned, seed });
      const known = new Set(train.map(({ shares }) => countsKey(shares)));
      const ours = openSyncPredictor(model, domain, { version: "ours" });
      const named = (name: string, each: BandwidthPredictor, cpuMs = NaN): void => {
        models.push({ name, ...learned, ...accuracyOf(each, test), cpuMs });
        enter(name, searching(searchPick, each, compact), { ...learned, known });
      };
      named("ours", ours, took.cpuMs);
      if (samples !== PAPER_SAMPLES) continue;
      say(`rivals from ${String(samples)} ${training} sets`);
      named("boosted trees", trainBoostedTrees({ domain, samples: train, seed }));
      named("nearest neighbour", nearestNeighbour({ domain, samples: train }));
      if (training !== main) continue;
      const bare = await plan.trainings(truth, { ...learned, seed, isBare: true });
      named("ours, no clamp", openSyncPredictor(bare.model, domain, { version: "no clamp" }));
      enter("hybrid search", searching(hybrid, ours, compact), learned);
      enter("EHA only", searching(eha, ours, compact), learned);
      enter("PTS only", searching(pts, ours, compact), learned);
    }
  return { runs, models };
}
