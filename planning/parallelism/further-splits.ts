/**
 * @file All plain splits of a few GPUs that could be shorter than the best so far, by their floors (step-floor.ts), played while the work lasts.
 *
 * The candidates of candidates.ts are one for each choice of degrees, by a bound that errs by some per cent. Here every micro-batch, number of runs and degree of context is one of its own, on
 * hosts in every order of their kinds, laid out by stages, by groups that share out a sequence, and by replicas. A floor that holds whatever the layers of stages says which get layers: even
 * ones, and those levelled by what their stages send. Those with the shortest bounds are played first, so that their steps leave out the more of the others. What is not played keeps its bound.
 * Cost: the work stated of looking and of playing, whatever the request; where it ends, the choices of degrees with the shortest bounds have been looked at.
 */

import { divisorsOf } from "../../lib/divisors.ts";
import { byGroup, byStage, type Grid } from "./arrange.ts";
import { boundsOnce } from "./bounds-once.ts";
import {
  byTime,
  degreesKey,
  degreesOf,
  otherRuns,
  timed,
  type Candidate,
  type Degrees,
  type Search,
} from "./candidates.ts";
import { kindOrders } from "./cluster-orders.ts";
import { isReplicasAlone } from "./framework.ts";
import type { Players } from "./player.ts";
import type { PlanSite, Unit } from "./site.ts";
import type { Split } from "./split.ts";
import { evenBounds, isHeldEverywhere, levelledBounds } from "./stage-bounds.ts";
import { memoryModes } from "./stage-memory.ts";
import { openFloorMs, stepFloorMs } from "./step-floor.ts";

/** Sites of more GPUs are searched by their bounds. */
const MOST_GPUS = 32;
/** Of played steps: moments × units. */
const PLAYED_WORK = 5e6;
/** Of looking: cells, and layers of stages. */
const LOOKED_WORK = 4e6;
/** What a floor, layers of stages and a bound cost beside it, in as many. */
const LOOK = 8;
const LAYERS = 4;

export const hasFewGpus = ({ hosts }: PlanSite): boolean =>
  hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0) <= MOST_GPUS;

/** `known` and all that could be shorter than its best: those that were played with their steps, the others with their bounds; shortest first. */
export function playedFurther(
  known: readonly Candidate[],
  search: Search,
  players: Players,
): readonly Candidate[] {
  const setting = { site: search.request.site, sums: search.sums };
  const player = players(PLAYED_WORK);
  let leastMs = Math.min(...known.map(({ time }) => time.totalMs), Infinity);
  const found: Candidate[] = [];
  const playAll = (candidates: readonly Candidate[]): void => {
    for (const candidate of [...candidates].sort(byTime)) {
      const { split } = candidate;
      const isWanted = !player.isSpent() && stepFloorMs(split, setting) < leastMs;
      const time = isWanted ? player.play(split, Infinity) : undefined;
      player.pass(split);
      found.push(time === undefined ? candidate : { ...candidate, time, isPlayed: true });
      leastMs = Math.min(leastMs, time?.totalMs ?? Infinity);
    }
  };
  playAll(known);
  playAll(furtherSplits(search, leastMs, known));
  return found.sort(byTime);
}

/** Those whose floors are below. */
function furtherSplits(
  search: Search,
  thanMs: number,
  known: readonly Candidate[],
): readonly Candidate[] {
  const setting = { site: search.request.site, sums: search.sums };
  const found: Candidate[] = [];
  const look: Look = { search, thanMs, left: LOOKED_WORK };
  for (const split of everyLaid(look, known)) {
    const levelled = levelledBounds(split, setting.site, setting.sums);
    for (const each of levelled === split ? [split] : [split, levelled]) {
      look.left -= LOOK * each.cells.length;
      if (stepFloorMs(each, setting) >= thanMs) continue;
      look.left -= LOOK * each.cells.length;
      found.push(timed(search, each, "clusters or hosts in another order"));
    }
  }
  return found;
}

interface Look {
  readonly search: Search;
  readonly thanMs: number;
  /** Of the work. */
  left: number;
}

/** Choices of degrees with the shortest known candidates first. */
function* everyLaid(look: Look, known: readonly Candidate[]): Generator<Split> {
  const { search } = look;
  const { request, sums } = search;
  const leastMs = new Map<string, number>();
  for (const { split, time } of known) {
    const key = degreesKey(split);
    leastMs.set(key, Math.min(time.totalMs, leastMs.get(key) ?? Infinity));
  }
  const all = degreesOf(request, sums).flatMap(({ units, degrees }) => {
    const orders = [units, ...kindOrders(request.site, units)];
    return degrees
      .filter(({ stages, replicas }) => stages * replicas === units.length)
      .map((each) => ({ degrees: each, orders, ms: leastMs.get(degreesKey(each)) ?? Infinity }));
  });
  // Equal ones, and those without a time, stay in the order of their degrees.
  const sorted = all.sort((a, b) => (a.ms < b.ms ? -1 : a.ms > b.ms ? 1 : 0));
  for (const { degrees, orders } of sorted)
    for (const contexts of degrees.contexts) yield* laid(look, { degrees, contexts, orders });
}

interface OfDegrees {
  readonly degrees: Degrees;
  readonly contexts: number;
  readonly orders: readonly (readonly Unit[])[];
}

function* laid(
  look: Look,
  { degrees: { contexts: _all, ...degrees }, contexts, orders }: OfDegrees,
): Generator<Split> {
  const { search, thanMs } = look;
  const { request, sums } = search;
  const { site, batch, mostMicroBatch, fixed } = request;
  const samples = (batch * contexts) / degrees.replicas;
  const open = { ...degrees, ...(contexts > 1 && { contexts }) };
  const boundsOf = boundsOnce(search.request, (one) => {
    look.left -= LAYERS * sums.flops.length * one.stages;
    return evenBounds(one, site, sums);
  });
  const isTied = sums.tiedParameters > 0;
  const sizes = divisorsOf(samples, mostMicroBatch);
  const modes = memoryModes(sums.framework, degrees.replicas);
  for (const cells of layouts(open, { orders, isTied, look }))
    for (const microBatch of sizes) {
      const tried = new Set<string>();
      for (const mode of modes) {
        if (look.left <= 0) return;
        look.left -= cells.length;
        const whole = { ...open, ...mode, microBatch, microBatches: samples / microBatch, cells };
        const floorMs = openFloorMs(whole, { site, sums });
        if (floorMs.anyRuns >= thanMs) continue;
        for (const bounds of boundsOf(whole)) {
          // Of the same layers a thriftier mode works longer; a mode that fits with other layers may have a busier stage.
          const key = bounds.join();
          if (tried.has(key) && !isReplicasAlone(sums.framework)) continue;
          const split = { ...whole, bounds };
          look.left -= LOOK * cells.length;
          if (!isHeldEverywhere(split, site, sums)) continue;
          if ((fixed?.runs ?? 1) === 1 && floorMs.oneRun < thanMs) yield split;
          if (tried.size === 0) yield* otherRuns(search, split);
          tried.add(key);
        }
      }
    }
}

interface Layouts {
  readonly orders: readonly (readonly Unit[])[];
  readonly isTied: boolean;
  readonly look: Look;
}

function* layouts(
  { stages, replicas, contexts = 1 }: Pick<Split, "stages" | "replicas" | "contexts">,
  { orders, isTied, look }: Layouts,
): Generator<readonly Unit[]> {
  const grid: Grid = { stages, replicas, sendBytes: [], reduceBytes: [] };
  const found = new Set<string>();
  for (const units of orders)
    for (const laidOut of [
      byStage(grid, units),
      byGroup(grid, contexts, units),
      byGroup(grid, 1, units),
    ])
      for (const cells of isTied && stages > 1 ? [laidOut, roundBy(grid, laidOut)] : [laidOut]) {
        look.left -= cells.length;
        const key = cells.map(({ firstRank }) => firstRank).join();
        if (!found.has(key)) yield cells;
        found.add(key);
      }
}

/** Each pipeline begins a stage later and ends with the first one's unit: then the first and the last stage, which sum a tied embedding, lie on one host. */
const roundBy = ({ replicas }: Grid, cells: readonly Unit[]): readonly Unit[] => [
  ...cells.slice(replicas),
  ...cells.slice(0, replicas),
];
