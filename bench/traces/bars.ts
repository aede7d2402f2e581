/**
 * @file The bars of `bench traces`. Each case counts as the mean of its windows; a rival is no oracle unless it is named.
 *
 * Rivals inside the tenants' weights are asked the same of tenants as ours. Where none was played, the bar is not measured.
 */

import { atLeast, atMost, barOf, REPORTED, type Bar, type Target } from "../bar.ts";
import { mean } from "../statistics.ts";
import { caseName, FILLED_IN, type TraceCase } from "./definition.ts";
import type { TraceEntrant } from "./entrants.ts";
import type { Figures } from "./figures.ts";
import type { Played } from "./play.ts";

/** A case over its windows. */
export interface Mean {
  readonly name: string;
  readonly its: TraceCase;
  /** By policy. */
  readonly of: (policy: string) => Figures | undefined;
}

export function meansOf(played: readonly Played[]): readonly Mean[] {
  const groups = new Map<string, Played[]>();
  for (const one of played) {
    const name = caseName(one.its);
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  return [...groups].flatMap(([name, windows]) => {
    const [first] = windows;
    return first === undefined ? [] : [{ name, its: first.its, of: meanFigures(windows) }];
  });
}

function meanFigures(windows: readonly Played[]): Mean["of"] {
  return (policy) => {
    const all = windows.flatMap(({ figures }) => figures.get(policy) ?? []);
    const [first] = all;
    if (first === undefined) return undefined;
    const keys = Object.keys(first) as (keyof Figures)[]; // of an object that this bench made
    const averaged = keys.map((key) => [key, mean(all.map((figures) => figures[key]))] as const);
    return { ...first, ...Object.fromEntries(averaged) };
  };
}

type Key = keyof Figures;

interface Ratio {
  readonly name: string;
  readonly ratio: number;
  readonly rival: string;
}

/** Ours ÷ the best (least) of the rivals, case by case; cases without one are left out. */
function ratios(
  means: readonly Mean[],
  entrants: readonly TraceEntrant[],
  key: Key,
): readonly Ratio[] {
  const ours = entrants.find(({ scope }) => scope === "ours")?.name ?? "";
  return means.flatMap(({ name, of }) => {
    const own = of(ours)?.[key];
    let best: { readonly rival: string; readonly value: number } | undefined;
    for (const { name: rival } of entrants) {
      const value = rival === ours ? undefined : of(rival)?.[key];
      if (value !== undefined && (best === undefined || value < best.value))
        best = { rival, value };
    }
    return own === undefined || best === undefined
      ? []
      : [{ name, ratio: own / best.value, rival: best.rival }];
  });
}

interface Found {
  readonly got: number | undefined;
  readonly note?: string;
}

const geometric = (values: readonly Ratio[]): Found => ({
  got: values.length === 0 ? undefined : Math.exp(mean(values.map(({ ratio }) => Math.log(ratio)))),
});

function worst(values: readonly Ratio[]): Found {
  let most: Ratio | undefined;
  for (const each of values) if (most === undefined || each.ratio > most.ratio) most = each;
  return {
    got: most?.ratio,
    ...(most !== undefined && { note: `${most.name}, against ${most.rival}` }),
  };
}

export function barsOf(
  played: readonly Played[],
  entrants: readonly TraceEntrant[],
): readonly Bar[] {
  const means = meansOf(played);
  const ours = entrants.filter(({ scope }) => scope === "ours");
  const rivals = (scope: TraceEntrant["scope"]): readonly TraceEntrant[] => [
    ...ours,
    ...entrants.filter((each) => each.scope === scope && each.isOracle !== true),
  ];
  const named = (name: string): readonly TraceEntrant[] => [
    ...ours,
    ...entrants.filter((each) => each.name === name),
  ];
  const fair = rivals("weights");
  const all = entrants.filter(({ isOracle }) => isOracle !== true);
  const inWeights = ratios(means, fair, "mean");
  const inBare = ratios(means, rivals("bare"), "mean");
  const bar = (id: string, target: Target, found: Found): Bar =>
    barOf({ id, unit: "×", target, ...found });
  const stated = ratios(
    means.filter(({ its }) => FILLED_IN.has(its.trace)),
    fair,
    "mean",
  );
  const real = ratios(
    means.filter(({ its }) => !FILLED_IN.has(its.trace)),
    fair,
    "mean",
  );
  return [
    bar("completion-over-weights", atMost(1.1), worst(inWeights)),
    bar("completion-over-bare", atMost(1.25), worst(inBare)),
    bar("completion-geometric", atMost(1), geometric(inWeights)),
    bar("completion-geometric-real-run-times", REPORTED, geometric(real)),
    bar("completion-geometric-filled-in", REPORTED, geometric(stated)),
    bar("completion-over-srsf", atMost(1.25), geometric(ratios(means, named("srsf"), "mean"))),
    bar("median-geometric", atMost(1), geometric(ratios(means, all, "median"))),
    ...fairnessBars(means, ours[0]?.name ?? ""),
    bar("slowdown-p999-over-easy", atMost(1), worst(ratios(means, named("easy"), "slowdownP999"))),
  ];
}

function fairnessBars(means: readonly Mean[], ours: string): readonly Bar[] {
  const extreme = (
    key: Key,
    sign: 1 | -1,
    isCounted: (its: TraceCase) => boolean,
  ): { readonly got: number | undefined; readonly note?: string } => {
    let found: { readonly name: string; readonly value: number } | undefined;
    for (const { name, its, of } of means) {
      const value = of(ours)?.[key];
      if (value === undefined || !isCounted(its)) continue;
      if (found === undefined || sign * value > sign * found.value) found = { name, value };
    }
    return { got: found?.value, ...(found !== undefined && { note: found.name }) };
  };
  const any = (): boolean => true;
  const onPhilly = ({ trace }: TraceCase): boolean => trace === "philly";
  const offPhilly = ({ trace }: TraceCase): boolean => trace !== "philly";
  const idle = extreme("idle", 1, any);
  return [
    barOf({
      id: "entitlement-got",
      unit: "×",
      target: atLeast(0.75),
      ...extreme("share", -1, any),
    }),
    barOf({
      id: "entitlement-got-philly",
      unit: "×",
      target: atLeast(0.85),
      ...extreme("share", -1, onPhilly),
    }),
    barOf({ id: "jain-philly", unit: "", target: atLeast(0.9), ...extreme("jain", -1, onPhilly) }),
    barOf({ id: "jain-others", unit: "", target: REPORTED, ...extreme("jain", -1, offPhilly) }),
    barOf({
      id: "run-over-ideal",
      unit: "×",
      target: atMost(1.2),
      ...extreme("runOverIdeal", 1, any),
    }),
    barOf({
      id: "idle",
      unit: "%",
      target: atMost(3),
      ...idle,
      got: idle.got === undefined ? undefined : 100 * idle.got,
    }),
  ];
}
