/**
 * @file Fits the generator to the rivals' six figures: FIFO, bin-packing and DRF, utilisation and inference p99; nothing else is looked at.
 *
 * Random search, then steps around the best: each candidate is drawn from named ranges, the three rivals run on it, and its
 * distance is the sum over the six of squares: utilisation in units of 3 points, p99 in units of a factor of 2: a p99
 * of few thousand waits of which all but about one in a hundred are nothing is not sharper than that.
 * The same seed and rounds give the same answer. Our own policy is never run here.
 */

import { randomFrom, type Random } from "../../lib/random.ts";
import { drawPaperMix } from "../../simulator/paper-mix.ts";
import type { BenchRequest, BenchTable } from "../bench.ts";
import { figureText } from "../report.ts";
import { CYCLE_INTERVAL_MS, optionsOf } from "./compare.ts";
import type { EntrantName } from "./entrants.ts";
import { figuresOf } from "./figures.ts";
import { mixOf, PAPER_RIVALS, type Knobs } from "./mix.ts";
import { percent } from "./policy-bars.ts";
import { runOne } from "./run-one.ts";

const UTILISATION_UNIT = 0.03;
const P99_UNIT = Math.log(2);
const DECISION_MS = 5;
/** As many jobs as arrive in so long, and not more than that. */
const SPAN_MS = 1_800_000;
const MOST_JOBS = 2_500;
/** Of the rounds, so many explore; the others step around the best so far. */
const EXPLORING = 0.6;

const RIVALS: readonly (readonly [
  EntrantName,
  { readonly utilisation: number; readonly p99Ms: number },
])[] = [
  ["fifo-backfill", PAPER_RIVALS.fifo],
  ["bin-packing", PAPER_RIVALS.binPacking],
  ["drf", PAPER_RIVALS.drf],
];

/** The range of each parameter; logarithmic where it spans more than a factor of two. */
const RANGES = {
  offeredLoad: [0.95, 1.05],
  inferenceShare: [0.0005, 0.01],
  inferenceMedianMs: [20, 1_000],
  inferenceSigma: [1, 2.5],
  burstFactor: [1, 10],
  interactiveShare: [0.001, 0.02],
  trainingMedianMs: [30_000, 200_000],
  sizeCentre: [5, 8],
  sizeWidth: [0.3, 2],
  hostsPerRack: [4, 32],
} as const satisfies Readonly<Record<keyof Knobs, readonly [number, number]>>;
type Knob = keyof Knobs;

export interface Fit {
  readonly knobs: Knobs;
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
    const knobs =
      best === undefined || round < EXPLORING * rounds
        ? drawnKnobs(random)
        : steppedKnobs(best.knobs, random);
    const fit = await fitOf(request, knobs);
    fits.push(fit);
    fits.sort((a, b) => a.distance - b.distance);
    request.say(
      `calibration ${String(round + 1)} of ${String(rounds)}: ${fit.rivals.map(({ utilisation, p99Ms }) => shown(utilisation, p99Ms)).join(", ")}; distance ${figureText(fit.distance)}, best ${figureText(fits[0]?.distance ?? NaN)}`,
    );
  }
  return fits.slice(0, 10);
}

async function fitOf(request: BenchRequest, knobs: Knobs): Promise<Fit> {
  const mix = mixOf(knobs);
  const few = drawPaperMix({ ...mix, jobs: 1_000 }, request.seed);
  const jobs = Math.min(MOST_JOBS, (1_000 * SPAN_MS) / (few.jobs.at(-1)?.submittedAtMs ?? SPAN_MS));
  const workload = drawPaperMix({ ...mix, jobs }, request.seed);
  const rivals: { policy: EntrantName; utilisation: number; p99Ms: number }[] = [];
  let distance = 0;
  for (const [policy, paper] of RIVALS) {
    const costs = { decisionMs: DECISION_MS, cycleIntervalMs: CYCLE_INTERVAL_MS };
    const { hostsPerRack } = knobs;
    const setting = { workload, costs, seed: request.seed, hostsPerRack };
    const { utilisation, inferenceP99Ms } = figuresOf(
      await runOne(optionsOf(policy, setting), request),
    );
    rivals.push({ policy, utilisation, p99Ms: inferenceP99Ms });
    distance +=
      ((utilisation - paper.utilisation) / UTILISATION_UNIT) ** 2 +
      (Math.log(inferenceP99Ms / paper.p99Ms) / P99_UNIT) ** 2;
  }
  return { knobs, distance, rivals };
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
  const value = (knob: Knob): number => of(RANGES[knob][0], RANGES[knob][1], knob);
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
    hostsPerRack: Math.round(value("hostsPerRack")),
  };
}

const isWide = (low: number, high: number): boolean => low > 0 && high / low > 2;

const between = (low: number, high: number, share: number): number =>
  isWide(low, high) ? low * (high / low) ** share : low + (high - low) * share;

const placeOf = (low: number, high: number, value: number): number =>
  isWide(low, high) ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);

export const calibrationTable = (fits: readonly Fit[]): BenchTable => ({
  title: "The fit to the rivals' six figures: utilisation, % / inference p99, ms",
  columns: ["DISTANCE", ...RIVALS.map(([name]) => name.toUpperCase())],
  rows: [
    ["paper", ...RIVALS.map(([, { utilisation, p99Ms }]) => shown(utilisation, p99Ms))],
    ...fits.map(({ distance, rivals }) => [
      figureText(distance),
      ...rivals.map(({ utilisation, p99Ms }) => shown(utilisation, p99Ms)),
    ]),
  ],
});

const shown = (utilisation: number, p99Ms: number): string =>
  `${percent(utilisation).toFixed(1)} / ${figureText(p99Ms)}`;
