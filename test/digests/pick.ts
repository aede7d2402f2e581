/**
 * @file Picks of GPUs by bandwidth: the GPUs that each search and each rival takes, and the bandwidth that is predicted for them.
 *
 * What predicts is the truth of a cluster, the nearest neighbour among its training sets, or a plain formula over many hosts. Nothing that
 * onnxruntime computes is digested: its last digits are the processor's. Work and batches are not digested either.
 */

import {
  defaultById,
  defaultNumaFirst,
  topo,
  topoAny,
  type Dispatcher,
} from "../../bench/pick/rivals.ts";
import { readLinks } from "../../bench/pick/links.ts";
import { truthPredictor } from "../../bench/pick/protocol.ts";
import { scenariosOf, type Scenario } from "../../bench/pick/scenarios.ts";
import { PRODUCT_WAY, splitOf } from "../../bench/pick/training-sets.ts";
import { readTruthData } from "../../bench/pick/truth-data.ts";
import { h100Truth, HET_KINDS, hetTruth, type Truth } from "../../bench/pick/truth.ts";
import type {
  BandwidthDomain,
  BandwidthPredictor,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { randomFrom } from "../../lib/random.ts";
import { nearestNeighbour } from "../../models/bandwidth/nearest-neighbour.ts";
import { eha } from "../../scheduling/pick/balanced.ts";
import { exactCounts } from "../../scheduling/pick/exact-counts.ts";
import { hybrid } from "../../bench/rivals/pick/hybrid.ts";
import { pts } from "../../bench/rivals/pick/pruned-tree.ts";
import { searchPick } from "../../scheduling/pick/search-pick.ts";
import { digestOf, type DigestCase, type Values } from "./digest.ts";

const SEED = 1;
const LARGEST = 32;
const QUICK_LARGEST = 12;
const EACH = 6;
const QUICK_EACH = 1;
const TRAINING = 100;
const MANY_HOSTS = 40;
const SEARCHES = [searchPick, hybrid, eha, pts, exactCounts];

const data = readTruthData();
const truths = [h100Truth(data), ...HET_KINDS.flatMap((kind) => hetTruth(kind, data) ?? [])];

export const pickCases: readonly DigestCase[] = [
  ...truths.flatMap((truth, at) => [
    searchCase(truth, { largest: QUICK_LARGEST, each: QUICK_EACH, isQuick: at === 0 }),
    searchCase(truth, { largest: LARGEST, each: EACH }),
    rivalCase(truth),
  ]),
  ...truths.slice(0, 1).map(largeCase),
];

interface PickWish {
  readonly largest: number;
  readonly each: number;
  readonly isQuick?: boolean;
}

function searchCase(truth: Truth, { largest, each, isQuick = false }: PickWish): DigestCase {
  return {
    name: `searches on ${truth.name}, 1 to ${String(largest)} GPUs, ${String(each)} states each`,
    isQuick,
    run: () =>
      digestOf((values) => {
        const { domain } = truth;
        const { train } = splitOf(truth, { samples: TRAINING, seed: SEED, training: PRODUCT_WAY });
        const predictors = [truthPredictor(truth), nearestNeighbour({ domain, samples: train })];
        for (const predictor of predictors)
          for (const scenario of statesOf(domain, largest, each))
            writeSearches(values, predictor, scenario);
      }),
  };
}

function rivalCase(truth: Truth): DigestCase {
  return {
    name: `rivals on ${truth.name}, 1 to ${String(LARGEST)} GPUs, ${String(EACH)} states each`,
    isQuick: true,
    run: () =>
      digestOf((values) => {
        const { domain } = truth;
        const links = readLinks();
        const rivals: readonly Dispatcher[] = [
          defaultById,
          defaultNumaFirst(domain, links),
          topo(domain, links),
          topoAny(domain, links, randomFrom(SEED, "any")),
        ];
        for (const rival of rivals)
          for (const scenario of statesOf(domain, LARGEST, EACH))
            writeCandidate(values, rival(scenario));
      }),
  };
}

/** Hosts with the tables of the measured ones in turn; the slowest host decides, and each further host costs a little. */
function largeCase({ domain: measured, name }: Truth): DigestCase {
  const tables = measured.hosts.length;
  const domain: BandwidthDomain = {
    hosts: Array.from({ length: MANY_HOSTS }, (_, at) => ({
      id: hostId("large", `h${String(at)}`),
      gpuCount: measured.hosts[at % tables]?.gpuCount ?? 0,
      gpuType: measured.hosts[at % tables]?.gpuType ?? "",
    })),
    intraGbs: (host, mask) => measured.intraGbs(host % tables, mask),
  };
  const gbs = (candidate: Candidate): number => {
    const inside = candidate.map(({ host, mask }) => domain.intraGbs(host, mask) ?? 0);
    const uneven = new Set(candidate.map(({ mask }) => popCount(mask))).size;
    return Math.min(400, ...inside) / (1 + 0.05 * (candidate.length - 1) + 0.02 * (uneven - 1));
  };
  const predictor: BandwidthPredictor = {
    version: "formula",
    domain,
    predict: (candidates) => candidates.map(gbs),
  };
  return {
    name: `search among ${String(MANY_HOSTS)} hosts like those of ${name}, 8 to 128 GPUs in steps of 15, 3 states each`,
    isQuick: false,
    run: () =>
      digestOf((values) => {
        const all = scenariosOf(
          domain,
          { smallest: 8, largest: 128, each: 3 },
          randomFrom(SEED, "large"),
        );
        for (const { gpus, freeMasks } of all.filter((each) => each.gpus % 15 === 8)) {
          const found = searchPick({ predictor, gpus, freeMasks });
          values.figure(found?.predictedGbs);
          writeCandidate(values, found?.pick ?? []);
        }
      }),
  };
}

const statesOf = (domain: BandwidthDomain, largest: number, each: number): readonly Scenario[] =>
  scenariosOf(domain, { smallest: 1, largest, each }, randomFrom(SEED, "digest"));

function writeSearches(
  values: Values,
  predictor: BandwidthPredictor,
  { gpus, freeMasks }: Scenario,
): void {
  for (const search of SEARCHES) {
    const found = search({ predictor, gpus, freeMasks });
    values.figure(found?.predictedGbs);
    values.figure(found?.score);
    writeCandidate(values, found?.pick ?? []);
  }
}

function writeCandidate(values: Values, candidate: Candidate): void {
  values.list(candidate, ({ host, mask }) => {
    values.count(host);
    values.count(mask);
  });
}
