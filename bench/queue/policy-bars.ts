/** @file The bars of the comparison: ours beside the paper's and beside the rivals of the same run. */

import type { SimulationResult } from "../../simulator/result.ts";
import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { figureText } from "../report.ts";
import type { DecisionCost, Results } from "./compare.ts";
import { ENTRANTS, type EntrantName } from "../../simulator/entrants/entrants.ts";
import {
  figuresOf,
  overSeeds,
  pooledInferenceP99Ms,
  type Figures,
  type OverSeeds,
} from "./figures.ts";
import { PAPER_TAWFQ } from "../../simulator/entrants/frozen-mix.ts";

export interface Compared {
  readonly results: Results;
  readonly decision: DecisionCost;
  /** What the live control plane adds to a wait. */
  readonly liveDelayMs: number;
}

/** Means over the seeds, p99 of the waits of all seeds together; the range of single seeds in the note. */
export function policyBars({ results, decision, liveDelayMs }: Compared): readonly Bar[] {
  const of = (name: EntrantName, figure: (figures: Figures) => number): OverSeeds =>
    overSeeds((results.get(name) ?? []).map(figuresOf), figure);
  const utilisation = of("tawfq", (figures) => figures.utilisation);
  const p99Of = (name: EntrantName): number => pooledInferenceP99Ms(results.get(name) ?? []);
  const p99Range = of("tawfq", (figures) => figures.inferenceP99Ms);
  const p99 = p99Of("tawfq");
  const lost = of("tawfq", (figures) => figures.trainingLost);
  const rivals = (["fifo", "bin-packing", "drf"] as const).flatMap((name) => [
    barOf({
      id: `${name}-utilisation`,
      unit: "%",
      paper: percent(ENTRANTS[name].paper?.utilisation ?? NaN),
      target: REPORTED,
      got: percent(of(name, (figures) => figures.utilisation).mean),
    }),
    barOf({
      id: `${name}-inference-p99`,
      unit: "ms",
      paper: ENTRANTS[name].paper?.p99Ms ?? NaN,
      target: REPORTED,
      got: p99Of(name),
    }),
  ]);
  const binPacking = of("bin-packing", (figures) => figures.utilisation).mean;
  const ratioTo = (name: EntrantName): number => p99 / p99Of(name);
  return [
    ...rivals,
    barOf({
      id: "utilisation",
      unit: "%",
      paper: percent(PAPER_TAWFQ.utilisation),
      target: atLeast(89),
      got: percent(utilisation.mean),
      note: `GPU-seconds held whose progress was kept over those in service, offered load ${loadText(results)}; ${rangeText(utilisation, 100)}`,
    }),
    barOf({
      id: "utilisation-at-best-spread",
      unit: "%",
      target: REPORTED,
      got: percent(of("tawfq", (figures) => figures.utilisationAtBestSpread).mean),
      note: `the same less what gangs lose to spread; bin-packing has ${figureText(percent(of("bin-packing", (figures) => figures.utilisationAtBestSpread).mean))}`,
    }),
    barOf({
      id: "utilisation-above-bin-packing",
      unit: "points",
      paper: percent(PAPER_TAWFQ.utilisation - 0.89),
      target: atLeast(0),
      got: percent(utilisation.mean - binPacking),
    }),
    barOf({
      id: "inference-p99",
      unit: "ms",
      paper: PAPER_TAWFQ.p99Ms,
      target: atMost(11.3),
      got: p99,
      note: `request in the ledger to grant, each decision charged ${String(decision.chargedMs)} ms (measured p99 ${figureText(decision.p99Ms)}); ${rangeText(p99Range, 1)}`,
    }),
    barOf({
      id: "inference-p99-live",
      unit: "ms",
      target: REPORTED,
      got: p99 + liveDelayMs,
      note: `the same with ${String(liveDelayMs)} ms for the live control plane, as bench live measures them (--live-delay-ms)`,
    }),
    barOf({
      id: "inference-p99-of-fifo",
      unit: "×",
      paper: 11.3 / 45,
      target: atMost(0.25),
      got: ratioTo("fifo"),
      note: `in order of arrival, as in the paper; with backfill its p99 is ${figureText(p99Of("fifo-backfill"))} ms`,
    }),
    barOf({
      id: "inference-p99-of-bin-packing",
      unit: "×",
      paper: 11.3 / 340,
      target: atMost(1 / 30),
      got: ratioTo("bin-packing"),
    }),
    barOf({
      id: "training-lost",
      unit: "%",
      paper: percent(PAPER_TAWFQ.trainingLost),
      target: atMost(5),
      got: percent(lost.mean),
      note: `to preemption: checkpoints and restarts, spread loss apart; ${rangeText(lost, 100)}`,
    }),
    barOf({
      id: "starved-tenants",
      unit: "tenants",
      paper: PAPER_TAWFQ.starvedTenants,
      target: exactly(0),
      got: of("tawfq", (figures) => figures.starvedTenants).most,
      note: starvedNote(results.get("tawfq") ?? []),
    }),
    barOf({
      id: "overhead",
      unit: "%",
      paper: percent(PAPER_TAWFQ.overhead),
      target: atMost(0.3),
      got: percent(decision.cpuSeconds / decision.gpuSeconds),
      note: "processor seconds of the whole simulation (scheduler, ledger and simulator) per GPU-second in service, a core-second counted like a GPU-second",
    }),
  ];
}

function starvedNote(results: readonly SimulationResult[]): string {
  const bound = Math.max(...results.map(({ starved }) => starved.boundMs ?? Infinity));
  const longest = Math.max(...results.map(({ starved }) => starved.longestWaitMs));
  const jobs = results.reduce((sum, { starved }) => sum + starved.jobs, 0);
  return `${String(jobs)} jobs waited longer than the proof's bound of ${figureText(bound / 1_000)} s; the longest wait was ${figureText(longest / 1_000)} s`;
}

/** One row for each policy, the paper's figures in brackets. */
export function policyTable({ results, liveDelayMs }: Compared): BenchTable {
  const rows = [...results].map(([name, list]) => {
    const all = list.map(figuresOf);
    const mean = (of: (figures: Figures) => number): number => overSeeds(all, of).mean;
    const { paper } = ENTRANTS[name];
    const p99 = pooledInferenceP99Ms(list);
    return [
      name,
      besides(
        percent(mean((figures) => figures.utilisation)).toFixed(1),
        paper && percent(paper.utilisation),
      ),
      besides(figureText(p99), paper?.p99Ms),
      figureText(p99 + liveDelayMs),
      figureText(mean((figures) => figures.trainingQueuedMs) / 1_000),
      percent(mean((figures) => figures.trainingLost)).toFixed(2),
      String(Math.round(mean((figures) => figures.evictions))),
      percent(mean((figures) => figures.spreadLoss)).toFixed(1),
      percent(mean((figures) => figures.utilisationAtBestSpread)).toFixed(1),
    ];
  });
  return {
    title:
      "All policies on the same arrivals (the paper's figures in brackets). util: GPU time whose progress was kept, %; p99: wait of inference, ms; live: with the control plane; queue: mean time of training in the queue, s; lost: of training to preemption, %; spread: of all GPU time, what gangs lost because of how they lay, %; net: util less that",
    columns: ["POLICY", "UTIL", "P99", "LIVE", "QUEUE", "LOST", "EVICTED", "SPREAD", "NET"],
    rows,
  };
}

const besides = (text: string, paper: number | undefined): string =>
  paper === undefined ? text : `${text} (${String(Math.round(paper * 10) / 10)})`;

export const percent = (share: number): number => 100 * share;

export const rangeText = ({ least, most }: OverSeeds, factor: number): string =>
  `${figureText(least * factor)} to ${figureText(most * factor)} over the seeds`;

function loadText(results: Results): string {
  const [first] = results.get("tawfq") ?? [];
  return (first?.workload.offeredLoad ?? NaN).toFixed(3);
}
