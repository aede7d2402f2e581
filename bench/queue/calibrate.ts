/**
 * @file Fits the generator to the rivals' six figures: FIFO, bin-packing and DRF, utilisation and inference p99; nothing else is looked at.
 *
 * Random search, then steps around the best: a candidate is drawn from named ranges, with as many jobs as give `LEAST_TRAINING` gangs and
 * `LEAST_INFERENCE` inference jobs, and the rivals run on it with `SEEDS` seeds. Its distance is the sum over the six figures of
 * squares: utilisation in points, p99 in powers of ten, because one wait in a hundred decides there between a decision's time and
 * a run's. Waits of all seeds are pooled, utilisations are means. A candidate that is farther than the best by
 * more than `HOPELESS` after the first seed is dropped. Our own policy never runs here. The same seed and rounds give the same answer.
 */

import { randomFrom, type Random } from "../../lib/random.ts";
import { drawPaperMix, type PaperMix } from "../../simulator/paper-mix.ts";
import type { SimulationResult } from "../../simulator/result.ts";
import type { BenchRequest, BenchTable } from "../bench.ts";
import { figureText } from "../report.ts";
import { CYCLE_INTERVAL_MS, optionsOf } from "./compare.ts";
import type { EntrantName } from "../../simulator/entrants/entrants.ts";
import { pooledInferenceP99Ms } from "./figures.ts";
import { mixOf, PAPER_RIVALS, type Knobs } from "../../simulator/entrants/frozen-mix.ts";
import { percent } from "./policy-bars.ts";
import { runOne } from "./run-one.ts";

const UTILISATION_UNIT = 0.01;
const P99_UNIT = Math.log(10);
const DECISION_MS = 5;
const SEEDS = 2;
/** Enough that the fleet is filled many times over, and that a p99 is more than a few waits. */
const LEAST_TRAINING = 300;
const LEAST_INFERENCE = 1_500;
const MOST_JOBS = 6_000;
const HOPELESS = 20;
/** Of the rounds, so many explore; the others step around the best so far. */
const EXPLORING = 0.4;

const RIVALS = [
  ["fifo", PAPER_RIVALS.fifo],
  ["bin-packing", PAPER_RIVALS.binPacking],
  ["drf", PAPER_RIVALS.drf],
] as const satisfies readonly (readonly [EntrantName, unknown])[];

/** The range of each parameter; logarithmic where it spans more than a factor of 2.5. */
const RANGES = {
  offeredLoad: [0.95, 1.1],
  inferenceShare: [0.0003, 0.006],
  inferenceMedianMs: [20, 2_000],
  inferenceSigma: [1, 2.5],
  burstFactor: [1, 10],
  interactiveShare: [0.001, 0.05],
  trainingMedianMs: [20_000, 200_000],
  sizeCentre: [5.5, 9.5],
  sizeWidth: [0.8, 3],
} as const satisfies Readonly<Record<keyof Knobs, readonly [number, number]>>;
type Knob = keyof Knobs;

export interface Fit {
  readonly knobs: Knobs;
  readonly jobs: number;
  readonly seeds: number;
  readonly distance: number;
  readonly rivals: readonly {
    readonly policy: EntrantName;
    readonly utilisation: number;
    readonly p99Ms: number;
  }[];
}

/** Best first. */
export async function calibrate(request: BenchRequest, rounds: number): Promise<readonly Fit[]> {
  const random = randomFrom(request.seed, "calibration");
  const fits: Fit[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const [best] = fits;
    const isExploring = best === undefined || round < EXPLORING * rounds;
    const drawn = drawnCandidate(random, isExploring ? undefined : best.knobs);
    const fit = await fitOf(request, drawn, (best?.distance ?? Infinity) + HOPELESS);
    if (fit.seeds === SEEDS) fits.push(fit);
    fits.sort((a, b) => a.distance - b.distance);
    request.say(
      `calibration ${String(round + 1)} of ${String(rounds)}: ${fit.rivals.map(shown).join(", ")}; distance ${figureText(fit.distance)}, best ${figureText(fits[0]?.distance ?? NaN)}`,
    );
  }
  return fits.slice(0, 10);
}

interface Candidate {
  readonly knobs: Knobs;
  readonly mix: PaperMix;
}

/** The first that is drawn whose classes both have enough jobs. */
function drawnCandidate(random: Random, near: Knobs | undefined): Candidate {
  for (;;) {
    const knobs = near === undefined ? drawnKnobs(random) : steppedKnobs(near, random);
    const mix = mixOf(knobs);
    const jobs = jobsFor(mix);
    if (jobs <= MOST_JOBS) return { knobs, mix: { ...mix, jobs } };
  }
}

/** How many jobs have enough of both classes among them. */
function jobsFor(mix: Omit<PaperMix, "jobs">): number {
  const sample = drawPaperMix({ ...mix, jobs: 1_000 }, 1).jobs;
  const shareOf = (name: string): number =>
    sample.filter((job) => job.class === name).length / sample.length;
  return Math.ceil(
    Math.max(LEAST_TRAINING / shareOf("training"), LEAST_INFERENCE / shareOf("inference")),
  );
}

async function fitOf(
  request: BenchRequest,
  { knobs, mix }: Candidate,
  atMost: number,
): Promise<Fit> {
  const results = new Map<EntrantName, SimulationResult[]>();
  let fit: Fit = { knobs, jobs: mix.jobs, seeds: 0, distance: Infinity, rivals: [] };
  for (let seeds = 1; seeds <= SEEDS; seeds += 1) {
    const seed = request.seed + seeds - 1;
    const workload = drawPaperMix(mix, seed);
    const costs = { decisionMs: DECISION_MS, cycleIntervalMs: CYCLE_INTERVAL_MS };
    for (const [policy] of RIVALS) {
      const options = { ...optionsOf(policy, { workload, costs, seed }), drainMs: 0 };
      results.set(policy, [...(results.get(policy) ?? []), await runOne(options, request)]);
    }
    let distance = 0;
    const rivals = RIVALS.map(([policy, paper]) => {
      const own = results.get(policy) ?? [];
      const utilisation = own.reduce((sum, each) => sum + each.utilisation, 0) / own.length;
      const p99Ms = pooledInferenceP99Ms(own);
      distance +=
        ((utilisation - paper.utilisation) / UTILISATION_UNIT) ** 2 +
        (Math.log(p99Ms / paper.p99Ms) / P99_UNIT) ** 2;
      return { policy, utilisation, p99Ms };
    });
    fit = { ...fit, seeds, distance, rivals };
    if (distance > atMost) break;
  }
  return fit;
}

function drawnKnobs(random: Random): Knobs {
  return knobsBy((low, high) => between(low, high, random.unit()));
}

function steppedKnobs(from: Knobs, random: Random): Knobs {
  return knobsBy((low, high, knob) => {
    const at = placeOf(low, high, from[knob]) + 0.1 * random.normal();
    return between(low, high, Math.min(1, Math.max(0, at)));
  });
}

function knobsBy(of: (low: number, high: number, knob: Knob) => number): Knobs {
  const value = (knob: Knob): number =>
    Number(of(RANGES[knob][0], RANGES[knob][1], knob).toPrecision(3));
  return {
    offeredLoad: value("offeredLoad"),
    inferenceShare: value("inferenceShare"),
    inferenceMedianMs: value("inferenceMedianMs"),
    inferenceSigma: value("inferenceSigma"),
    burstFactor: value("burstFactor"),
    interactiveShare: value("interactiveShare"),
    trainingMedianMs: value("trainingMedianMs"),
    sizeCentre: value("sizeCentre"),
    sizeWidth: value("sizeWidth"),
  };
}

const isWide = (low: number, high: number): boolean => low > 0 && high / low > 2.5;

const between = (low: number, high: number, share: number): number =>
  isWide(low, high) ? low * (high / low) ** share : low + (high - low) * share;

const placeOf = (low: number, high: number, value: number): number =>
  isWide(low, high) ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);

export const calibrationTable = (fits: readonly Fit[]): BenchTable => ({
  title: "The fit to the rivals' six figures: utilisation, % / inference p99, ms",
  columns: ["DISTANCE", "JOBS", ...RIVALS.map(([name]) => name.toUpperCase())],
  rows: [
    ["paper", "", ...RIVALS.map(([, paper]) => shown(paper))],
    ...fits.map(({ distance, jobs, rivals }) => [
      figureText(distance),
      String(jobs),
      ...rivals.map(shown),
    ]),
  ],
});

const shown = ({
  utilisation,
  p99Ms,
}: {
  readonly utilisation: number;
  readonly p99Ms: number;
}): string => `${percent(utilisation).toFixed(1)} / ${figureText(p99Ms)}`;
