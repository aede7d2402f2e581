/**
 * @file Tuners under a shift in the middle of a job: a neighbour's traffic, or a move to other hosts (§4.1).
 *
 * A moved job starts with the policy of where it now is, so our tuner sees only what was measured there; the offline tuner keeps what it profiled before. No message announces a
 * silent shift: our tuner must detect it from the times.
 */

import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean, quantile } from "../statistics.ts";
import { eliminationChoice } from "../../tuning/elimination.ts";
import { offlineChoice } from "../rivals/tuning/offline-tuner.ts";
import { roundRobinChoice } from "../../tuning/round-robin.ts";
import type { Draws } from "../../simulator/collectives/draws.ts";
import {
  EMULATED_ARMS,
  PAPER_CHOICES,
  type EmulatedArm,
} from "../../simulator/collectives/emulated-arms.ts";
import { MIB, PAPER_2X4, PAPER_2X4_PROFILED } from "../../simulator/collectives/paper-clusters.ts";
import { playChooser, playFixed, type Played } from "./play.ts";
import { profiled } from "./rivals.ts";
import { profileOf, SHIFT_AT, shiftedJob, SHIFTS, type Luck, type ShiftKind } from "./scenarios.ts";

const NAMES = ["ours", "paper's bandit", "offline tuner", "AUTO"] as const;
type Name = (typeof NAMES)[number];

interface ShiftFound {
  readonly name: Name;
  /** Median of the last quarter over AUTO's. */
  readonly overAuto: number;
  /** Iterations until the best arm was in use for good, the middle one; NaN when it never was. */
  readonly recovery: number;
  readonly exploringAfter: number;
}

export function measureShifts(
  luck: Omit<Luck, "seed" | "noiseScale">,
  seeds: readonly number[],
): { readonly bars: readonly Bar[]; readonly tables: readonly BenchTable[] } {
  const found = SHIFTS.map((kind) => ({ kind, rows: measureShift(kind, luck, seeds) }));
  const of = (kind: ShiftKind, name: Name): ShiftFound | undefined =>
    found.find((each) => each.kind === kind)?.rows.find((row) => row.name === name);
  const percent = (kind: ShiftKind, name: Name): number | undefined => {
    const row = of(kind, name);
    return row && 100 * (row.overAuto - 1);
  };
  const bars = [
    barOf({
      id: "moved-stale-policy",
      unit: "% over AUTO",
      target: REPORTED,
      got: percent("moved", "offline tuner"),
      paper: 110,
      note: "the offline tuner with what it profiled before the move",
    }),
    barOf({
      id: "moved-ours",
      unit: "% over AUTO",
      target: atMost(1),
      got: percent("moved", "ours"),
      paper: 110,
    }),
    barOf({
      id: "neighbour-ours",
      unit: "% over AUTO",
      target: atMost(1),
      got: percent("neighbour", "ours"),
      note: "a shift without a notice",
    }),
    barOf({
      id: "neighbour-recovery",
      unit: "iterations",
      target: REPORTED,
      got: of("neighbour", "ours")?.recovery,
      note: "from the shift until the best arm is in use for good, exploring included",
    }),
    barOf({
      id: "neighbour-price",
      unit: "iterations",
      target: REPORTED,
      got: of("neighbour", "ours")?.exploringAfter,
      note: "exploring after the shift, mean",
    }),
  ];
  return { bars, tables: found.map(({ kind, rows }) => tableOf(kind, rows)) };
}

function measureShift(
  kind: ShiftKind,
  luck: Omit<Luck, "seed" | "noiseScale">,
  seeds: readonly number[],
): readonly ShiftFound[] {
  return NAMES.map((name) => {
    const jobs = seeds.map((seed) => {
      const own = { ...luck, seed, noiseScale: 1 };
      const draws = shiftedJob(kind, own);
      const played = playOn(name, { kind, draws, luck: own });
      const auto = playFixed(draws, "auto");
      const last = Math.floor(luck.iterations * 0.75);
      return {
        over: quantile(played.ms.slice(last), 0.5) / quantile(auto.ms.slice(last), 0.5),
        recovery: recoveryOf(played, draws),
        exploring: exploredAfter(played),
      };
    });
    return {
      name,
      overAuto: mean(jobs.map(({ over }) => over)),
      recovery: quantile(
        jobs.map(({ recovery }) => recovery),
        0.5,
      ),
      exploringAfter: mean(jobs.map(({ exploring }) => exploring)),
    };
  });
}

interface OnShift {
  readonly kind: ShiftKind;
  readonly draws: Draws;
  readonly luck: Luck;
}

function playOn(name: Name, { kind, draws, luck }: OnShift): Played {
  switch (name) {
    case "AUTO":
      return playFixed(draws, "auto");
    case "paper's bandit":
      return playChooser(draws, { chooser: roundRobinChoice, arms: PAPER_CHOICES });
    case "offline tuner": {
      const spec = kind === "moved" ? PAPER_2X4_PROFILED : PAPER_2X4;
      const profile = profiled(profileOf({ spec, bytes: 64 * MIB }, luck));
      const chosen = offlineChoice(profile, EMULATED_ARMS, 64 * MIB).arm;
      return playFixed(draws, EMULATED_ARMS.find((arm) => arm === chosen) ?? "auto");
    }
    case "ours":
      return playChooser(draws, {
        chooser: (samples, arms) => {
          const isMoved = kind === "moved" && samples.length >= SHIFT_AT;
          return eliminationChoice(isMoved ? samples.slice(SHIFT_AT) : samples, arms);
        },
        arms: EMULATED_ARMS,
      });
  }
}

function recoveryOf({ arms }: Played, draws: Draws): number {
  const at = arms.length - 1;
  const best = EMULATED_ARMS.reduce<EmulatedArm>(
    (least, arm) => (draws.medianMs(arm, at) < draws.medianMs(least, at) ? arm : least),
    "auto",
  );
  let from = arms.length;
  while (from > SHIFT_AT && arms[from - 1] === best) from -= 1;
  return from === arms.length ? Infinity : from - SHIFT_AT;
}

/** Iterations after the shift under another arm than before it or in the end. */
function exploredAfter({ arms }: Played): number {
  const settled = new Set([arms[SHIFT_AT - 1], arms.at(-1)]);
  const after = arms.slice(SHIFT_AT);
  const others = after.filter((arm) => !settled.has(arm)).length;
  return others === 0 ? 0 : others + stillTried(after);
}

/** What the arms of before and after got of the rounds in which others were tried. */
function stillTried(after: readonly (EmulatedArm | undefined)[]): number {
  const last = after.at(-1);
  let end = after.length;
  while (end > 0 && after[end - 1] === last) end -= 1;
  const start = after.findIndex((arm, at) => at > 0 && arm !== after[at - 1]);
  if (start < 0) return 0;
  const inside = after.slice(start, end);
  return inside.filter((arm) => arm === last || arm === after[0]).length;
}

const tableOf = (kind: ShiftKind, rows: readonly ShiftFound[]): BenchTable => ({
  title:
    kind === "moved"
      ? `A job is moved at iteration ${String(SHIFT_AT)} to hosts where AUTO is faster than ever (§4.1)`
      : `A neighbour's traffic halves the best arm's speed at iteration ${String(SHIFT_AT)}`,
  columns: ["TUNER", "LAST QUARTER / AUTO", "RECOVERED AFTER", "EXPLORING"],
  rows: rows.map(({ name, overAuto, recovery, exploringAfter }) => [
    name,
    overAuto.toFixed(3),
    Number.isFinite(recovery) ? String(recovery) : "never",
    exploringAfter.toFixed(1),
  ]),
});
