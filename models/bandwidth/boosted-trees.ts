/**
 * @file Gradient-boosted regression trees as surrogate: the cheap rival of the Transformer. Benches and tests use it.
 *
 * Squared error of log bandwidth, exact splits, a random share of the samples for each tree (Friedman 2002). Depth, rate and the number of
 * trees are chosen by five-fold cross-validation over a small grid, so that it is as good as it can be on each domain and size.
 * Ties of splits go to the first feature and the lowest threshold. Cost: O(trees · depth · features · samples) after one sort.
 */

import type {
  BandwidthDomain,
  BandwidthPredictor,
  BandwidthSample,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { randomFrom, type Random } from "../../lib/random.ts";
import { candidateVectors } from "./candidate-vector.ts";
import { tablesFirst, type PredictorOptions } from "./inside.ts";

export interface RivalRequest {
  readonly domain: BandwidthDomain;
  readonly samples: readonly BandwidthSample[];
  readonly seed: number;
}

interface Growth {
  readonly depth: number;
  /** Share of a tree's answer that is added. */
  readonly rate: number;
}

const GRID: readonly Growth[] = [
  { depth: 2, rate: 0.1 },
  { depth: 3, rate: 0.1 },
  { depth: 5, rate: 0.1 },
];
const MOST_TREES = 240;
/** Numbers of trees that cross-validation looks at. */
const TREE_STEP = 20;
const FOLDS = 5;
/** Samples that a tree sees. */
const SAMPLED = 0.8;
const LEAST_LEAF = 2;

type Row = readonly number[];

type Tree =
  | { readonly kind: "leaf"; readonly value: number }
  | {
      readonly kind: "split";
      readonly feature: number;
      readonly edge: number;
      readonly low: Tree;
      readonly high: Tree;
    };

export function trainBoostedTrees(
  { domain, samples, seed }: RivalRequest,
  options: PredictorOptions = {},
): BandwidthPredictor {
  const spread = samples.filter(({ shares }) => shares.length > 1);
  const vectorise = candidateVectors(domain);
  const rows = spread.map(({ shares }) => vectorise(shares));
  const targets = spread.map(({ gbs }) => Math.log(gbs));
  const random = randomFrom(seed, "boosted-trees");
  const chosen = crossValidated(rows, targets, random.stream("folds"));
  const { base, trees } = grown(rows, targets, { ...chosen, random: random.stream("trees") });
  const acrossHosts: Parameters<typeof tablesFirst>[1] = (candidates) =>
    candidates.map((candidate) => {
      const row = vectorise(candidate);
      const log = trees.reduce((sum, tree) => sum + chosen.rate * answer(tree, row), base);
      return Math.exp(log);
    });
  return tablesFirst(domain, acrossHosts, { version: "boosted-trees", ...options });
}

/** What trees that did not see a sample make of it, in GB/s: an expectation without any knowledge of single hosts. */
export function crossFitted({ domain, samples, seed }: RivalRequest): readonly number[] {
  const vectorise = candidateVectors(domain);
  const rows = samples.map(({ shares }) => vectorise(shares));
  const logs = samples.map(({ gbs }) => Math.log(gbs));
  const random = randomFrom(seed, "cross-fitted");
  const fold = rows.map(() => random.below(FOLDS));
  const expected = new Array<number>(rows.length).fill(0);
  for (let left = 0; left < FOLDS; left += 1) {
    const kept = [...rows.keys()].filter((index) => fold[index] !== left);
    const { base, trees } = grown(
      kept.map((index) => rows[index] ?? []),
      kept.map((index) => logs[index] ?? 0),
      { depth: 3, rate: 0.1, count: 60, random },
    );
    rows.forEach((row, index) => {
      if (fold[index] !== left) return;
      expected[index] = Math.exp(trees.reduce((sum, tree) => sum + 0.1 * answer(tree, row), base));
    });
  }
  return expected;
}

/** The growth and number of trees with the least squared error on folds that were left out. */
function crossValidated(
  rows: readonly Row[],
  targets: readonly number[],
  random: Random,
): Growth & { readonly count: number } {
  const fold = rows.map(() => random.below(FOLDS));
  let best: (Growth & { readonly count: number; readonly error: number }) | undefined;
  for (const growth of GRID) {
    const errors = new Array<number>(MOST_TREES / TREE_STEP).fill(0);
    for (let left = 0; left < FOLDS; left += 1) {
      const kept = rows.flatMap((_, index) => (fold[index] === left ? [] : [index]));
      const { base, trees } = grown(
        kept.map((index) => rows[index] ?? []),
        kept.map((index) => targets[index] ?? 0),
        { ...growth, count: MOST_TREES, random: random.stream(`tree${String(left)}`) },
      );
      rows.forEach((row, index) => {
        if (fold[index] !== left) return;
        let log = base;
        trees.forEach((tree, number) => {
          log += growth.rate * answer(tree, row);
          if ((number + 1) % TREE_STEP !== 0) return;
          const at = (number + 1) / TREE_STEP - 1;
          errors[at] = (errors[at] ?? 0) + (log - (targets[index] ?? 0)) ** 2;
        });
      });
    }
    errors.forEach((error, at) => {
      if (best !== undefined && error >= best.error) return;
      best = { ...growth, count: (at + 1) * TREE_STEP, error };
    });
  }
  return best ?? { depth: 3, rate: 0.1, count: MOST_TREES };
}

function grown(
  rows: readonly Row[],
  targets: readonly number[],
  { depth, rate, count, random }: Growth & { readonly count: number; readonly random: Random },
): { readonly base: number; readonly trees: readonly Tree[] } {
  const base = targets.reduce((sum, target) => sum + target, 0) / Math.max(1, targets.length);
  const rest = targets.map((target) => target - base);
  const features = rows[0]?.length ?? 0;
  const sorted = Array.from({ length: features }, (_, feature) =>
    [...rows.keys()].sort((a, b) => (rows[a]?.[feature] ?? 0) - (rows[b]?.[feature] ?? 0) || a - b),
  );
  const trees: Tree[] = [];
  for (let number = 0; number < count; number += 1) {
    const isSeen = rows.map(() => rows.length < 10 || random.unit() < SAMPLED);
    const orders = sorted.map((order) => order.filter((index) => isSeen[index]));
    const tree = planted({ rows, rest, orders, depth });
    trees.push(tree);
    rows.forEach((row, index) => {
      rest[index] = (rest[index] ?? 0) - rate * answer(tree, row);
    });
  }
  return { base, trees };
}

interface Plot {
  readonly rows: readonly Row[];
  /** What is left to explain. */
  readonly rest: readonly number[];
  /** The samples of this place, sorted by each feature. */
  readonly orders: readonly (readonly number[])[];
  readonly depth: number;
}

function planted({ rows, rest, orders, depth }: Plot): Tree {
  const samples = orders[0] ?? [];
  const total = samples.reduce((sum, index) => sum + (rest[index] ?? 0), 0);
  const leaf: Tree = { kind: "leaf", value: samples.length === 0 ? 0 : total / samples.length };
  if (depth === 0 || samples.length < 2 * LEAST_LEAF) return leaf;
  let best = { gain: total ** 2 / samples.length + 1e-9, feature: -1, edge: 0 };
  orders.forEach((order, feature) => {
    let left = 0;
    order.forEach((index, place) => {
      left += rest[index] ?? 0;
      const next = order[place + 1];
      if (next === undefined || place + 1 < LEAST_LEAF || order.length - place - 1 < LEAST_LEAF)
        return;
      const here = rows[index]?.[feature] ?? 0;
      const there = rows[next]?.[feature] ?? 0;
      if (here === there) return;
      const gain = left ** 2 / (place + 1) + (total - left) ** 2 / (order.length - place - 1);
      if (gain > best.gain) best = { gain, feature, edge: (here + there) / 2 };
    });
  });
  if (best.feature < 0) return leaf;
  const isLow = (index: number): boolean => (rows[index]?.[best.feature] ?? 0) < best.edge;
  const side = (wanted: boolean): Tree =>
    planted({
      rows,
      rest,
      orders: orders.map((order) => order.filter((index) => isLow(index) === wanted)),
      depth: depth - 1,
    });
  return {
    kind: "split",
    feature: best.feature,
    edge: best.edge,
    low: side(true),
    high: side(false),
  };
}

function answer(tree: Tree, row: Row): number {
  let at = tree;
  while (at.kind === "split") at = (row[at.feature] ?? 0) < at.edge ? at.low : at.high;
  return at.value;
}
