/**
 * @file All dispatchers on the same scenarios of one cluster, for every seed: the paper's figures 6, 7 and 10 and its table 2.
 *
 * A seed draws the scenarios and the training set and starts the training. Rivals that need no model are there once a seed; models
 * for each size of training set. The size at which the paper compares (250) has all searches and all models.
 */

import type { BandwidthPredictor, BandwidthSample } from "../../domain/bandwidth-port.ts";
import { randomFrom } from "../../lib/random.ts";
import { trainBoostedTrees } from "../../models/boosted-trees.ts";
import { nearestNeighbour } from "../../models/nearest-neighbour.ts";
import { accuracyOf, openSyncPredictor, trainSurrogate } from "../../models/surrogate.ts";
import { eha } from "../../scheduling/pick/balanced.ts";
import { hybrid } from "../../scheduling/pick/hybrid.ts";
import { pts } from "../../scheduling/pick/pruned-tree.ts";
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
import { askedSets } from "./training-sets.ts";
import type { Truth } from "./truth.ts";

/** At which the paper compares dispatchers. */
export const PAPER_SAMPLES = 250;

export interface ComparePlan {
  readonly links: LinksByType;
  readonly sizes: ScenarioSizes;
  readonly samples: readonly number[];
  /** On which sets of a mixed cluster the models are trained. */
  readonly training: "drawn" | "asked";
  readonly say: (line: string) => void;
}

/** One dispatcher on the scenarios of one seed. */
export interface Run {
  readonly name: string;
  /** Size of the training set; 0 of those that learn nothing. */
  readonly samples: number;
  readonly judged: readonly Judged[];
}

export interface ModelFigures {
  readonly name: string;
  readonly samples: number;
  readonly r2: number;
  readonly mapePercent: number;
  /** Of the whole process. */
  readonly cpuMs: number;
}

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
  const enter = (name: string, samples: number, dispatch: Dispatcher): void => {
    runs.push({ name, samples, judged: judge(field, dispatch) });
  };
  const known = truthPredictor(truth);
  enter("Random", 0, randomChoice(random.stream("Random")));
  enter("Default by id", 0, defaultById);
  enter("Default NUMA first", 0, defaultNumaFirst(domain, plan.links));
  enter("Topo", 0, compact);
  enter("Topo, any", 0, topoAny(domain, plan.links, random.stream("Topo")));
  enter("EHA, true values", 0, searching(eha, known, compact));
  enter("Ideal-BP", 0, searching(hybrid, known, compact));
  for (const samples of plan.samples) {
    plan.say(`pick: ${truth.name}, seed ${String(seed)}, ${String(samples)} samples`);
    const { train, test } = splitOf(truth, { samples, seed, training: plan.training });
    const before = process.cpuUsage();
    const model = await trainSurrogate({ domain, samples: train, seed });
    const { user, system } = process.cpuUsage(before);
    const predictor = openSyncPredictor(model, domain, { version: "ours" });
    const named = (name: string, each: BandwidthPredictor, cpuMs: number): void => {
      models.push({ name, samples, ...accuracyOf(each, test), cpuMs });
    };
    named("ours", predictor, (user + system) / 1_000);
    enter("ours", samples, searching(searchPick, predictor, compact));
    if (samples !== PAPER_SAMPLES) continue;
    const trees = trainBoostedTrees({ domain, samples: train, seed });
    const nearest = nearestNeighbour({ domain, samples: train });
    const unclamped = openSyncPredictor(model, domain, { version: "ours, no clamp", clamp: false });
    named("boosted trees", trees, NaN);
    named("nearest neighbour", nearest, NaN);
    named("ours, no clamp", unclamped, NaN);
    enter("hybrid search", samples, searching(hybrid, predictor, compact));
    enter("EHA only", samples, searching(eha, predictor, compact));
    enter("PTS only", samples, searching(pts, predictor, compact));
    enter("boosted trees", samples, searching(searchPick, trees, compact));
    enter("nearest neighbour", samples, searching(searchPick, nearest, compact));
    enter("ours, no clamp", samples, searching(searchPick, unclamped, compact));
  }
  return { runs, models };
}

interface Split {
  readonly samples: number;
  readonly seed: number;
  readonly training: ComparePlan["training"];
}

/** Tests are the other multisets of a measured cluster, five times as many sets as the training has of a mixed one; never the same set. */
export function splitOf(
  truth: Truth,
  { samples, seed, training }: Split,
): { readonly train: readonly BandwidthSample[]; readonly test: readonly BandwidthSample[] } {
  const random = randomFrom(seed, `${truth.name}/training`);
  const isMeasured = truth.samples.length > 0;
  const drawn = truth.draw(isMeasured ? Infinity : 6 * samples, random.stream("sets"));
  if (isMeasured || training === "drawn")
    return { train: drawn.slice(0, samples), test: drawn.slice(samples) };
  return { train: askedSets(truth, samples, random.stream("asked")), test: drawn.slice(samples) };
}
