/**
 * @file All plain splits of a few GPUs that could be shorter than the best so far, by their floors (step-floor.ts), played while the work lasts.
 *
 * The candidates of candidates.ts are one for each choice of degrees, by a bound that errs by some per cent. Here every micro-batch, number of runs and degree of context is one of its own, on hosts in
 * every order of their kinds, laid out by stages, by groups that share out a sequence, and by replicas. Those with the shortest bounds are played first, so that their steps leave
 * out the more of the others. Cost: one floor for each; bounds of those below the best; the work stated of played steps.
 */

import { divisorsOf } from "../../lib/divisors.ts";
import { byGroup, byStage, type Grid } from "./arrange.ts";
import { boundsOnce } from "./bounds-once.ts";
import {
  byTime,
  degreesOf,
  isBetter,
  otherRuns,
  timed,
  type Candidate,
  type Degrees,
  type Search,
} from "./candidates.ts";
import { kindOrders } from "./cluster-orders.ts";
import { isReplicasAlone } from "./framework.ts";
import { playerOf } from "./player.ts";
import type { Unit } from "./site.ts";
import type { Split } from "./split.ts";
import { evenBounds, isHeldEverywhere, levelledBounds } from "./stage-bounds.ts";
import { memoryModes } from "./stage-memory.ts";
import { stepFloorMs } from "./step-floor.ts";

/** Sites of more GPUs are searched by their bounds. */
const MOST_GPUS = 64;
/** Of played steps: moments × units. */
const PLAYED_WORK = 8e6;

export const isSmall = ({ request: { site } }: Search): boolean =>
  site.hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0) <= MOST_GPUS;

/** Those that were played, with those of `known` that were; shortest first. */
export function playedFurther(known: readonly Candidate[], search: Search): readonly Candidate[] {
  const setting = { site: search.request.site, sums: search.sums };
  const player = playerOf(search, PLAYED_WORK);
  let leastMs = Infinity;
  const found: Candidate[] = [];
  const playAll = (candidates: readonly Candidate[]): void => {
    for (const candidate of [...candidates].sort(byTime)) {
      if (stepFloorMs(candidate.split, setting) >= leastMs) continue;
      const time = player.play(candidate.split, Infinity);
      if (time === undefined) continue;
      leastMs = Math.min(leastMs, time.totalMs);
      found.push({ ...candidate, time, isPlayed: true });
    }
  };
  playAll(known);
  playAll(furtherSplits(search, leastMs));
  return found.sort(byTime);
}

/** Those whose floors are below. */
function furtherSplits(search: Search, thanMs: number): readonly Candidate[] {
  const setting = { site: search.request.site, sums: search.sums };
  const found: Candidate[] = [];
  for (const split of everyLaid(search)) {
    if (stepFloorMs(split, setting) >= thanMs) continue;
    const plain = timed(search, split, "clusters or hosts in another order");
    const levelled = levelledBounds(split, setting.site, setting.sums);
    const again = levelled === split ? plain : timed(search, levelled, plain.arrangement);
    found.push(isBetter(again, plain) ? again : plain);
  }
  return found;
}

function* everyLaid(search: Search): Generator<Split> {
  const { request, sums } = search;
  for (const { units, degrees } of degreesOf(request, sums)) {
    const orders = [units, ...kindOrders(request.site, units)];
    for (const each of degrees) {
      if (each.stages * each.replicas !== units.length) continue;
      for (const contexts of each.contexts)
        yield* laid(search, { degrees: each, contexts, orders });
    }
  }
}

interface OfDegrees {
  readonly degrees: Degrees;
  readonly contexts: number;
  readonly orders: readonly (readonly Unit[])[];
}

function* laid(
  search: Search,
  { degrees: { contexts: _all, ...degrees }, contexts, orders }: OfDegrees,
): Generator<Split> {
  const { request, sums } = search;
  const { site, batch, mostMicroBatch, fixed } = request;
  const samples = (batch * contexts) / degrees.replicas;
  const open = { ...degrees, ...(contexts > 1 && { contexts }) };
  const boundsOf = boundsOnce(search.request, (one) => evenBounds(one, site, sums));
  const isTied = sums.tiedParameters > 0;
  for (const cells of layouts(open, { orders, isTied }))
    for (const microBatch of divisorsOf(samples, mostMicroBatch)) {
      const tried = new Set<string>();
      for (const mode of memoryModes(sums.framework, degrees.replicas)) {
        const whole = { ...open, ...mode, microBatch, microBatches: samples / microBatch, cells };
        for (const bounds of boundsOf(whole)) {
          // Of the same layers a thriftier mode works longer; a mode that fits with other layers may have a busier stage.
          const key = bounds.join();
          if (tried.has(key) && !isReplicasAlone(sums.framework)) continue;
          const split = { ...whole, bounds };
          if (!isHeldEverywhere(split, site, sums)) continue;
          if ((fixed?.runs ?? 1) === 1) yield split;
          if (tried.size === 0) yield* otherRuns(search, split);
          tried.add(key);
        }
      }
    }
}

function layouts(
  { stages, replicas, contexts = 1 }: Pick<Split, "stages" | "replicas" | "contexts">,
  { orders, isTied }: { readonly orders: readonly (readonly Unit[])[]; readonly isTied: boolean },
): readonly (readonly Unit[])[] {
  const grid: Grid = { stages, replicas, sendBytes: [], reduceBytes: [] };
  const found = new Map<string, readonly Unit[]>();
  const add = (cells: readonly Unit[]): void => {
    const key = cells.map(({ firstRank }) => firstRank).join();
    if (!found.has(key)) found.set(key, cells);
  };
  for (const units of orders)
    for (const cells of [
      byStage(grid, units),
      byGroup(grid, contexts, units),
      byGroup(grid, 1, units),
    ]) {
      add(cells);
      if (isTied && stages > 1) add(roundBy(grid, cells));
    }
  return [...found.values()];
}

/** Each pipeline begins a stage later and ends with the first one's unit: then the first and the last stage, which sum a tied embedding, lie on one host. */
const roundBy = ({ replicas }: Grid, cells: readonly Unit[]): readonly Unit[] => [
  ...cells.slice(replicas),
  ...cells.slice(0, replicas),
];
