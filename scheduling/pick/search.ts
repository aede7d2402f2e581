/**
 * @file The question and answer of every search for GPUs, and the record of the best candidate so far.
 *
 * The better candidate has the higher score: the bandwidth to count on (the predicted one, or less where the predictor says that nothing
 * similar was measured), or with neighbours (sharing.ts) the gain of the whole cluster, as long as the pick itself keeps the asked share of
 * the best bandwidth to count on. Ties, in this order:
 * the larger whole hosts stay free (sizes of the broken whole hosts, the largest first, compared one by one: less is better), fewer hosts,
 * lower host indices, lower masks. So the answer does not depend on the order of the candidates.
 * A candidate is predicted once. Cost: that of the predictor.
 */

import { popCount } from "../../domain/lease/lease.ts";
import type { Appraised, BandwidthPredictor, Candidate } from "./bandwidth-port.ts";

export interface PickQuestion {
  readonly predictor: BandwidthPredictor;
  /** GPUs that may be taken, by host of the domain; absent is none. */
  readonly freeMasks: readonly number[];
  /** At least 1. */
  readonly gpus: number;
  /** Answers of other methods: the pick is not worse than any of them. Each is of the wanted size and within what is free. */
  readonly also?: readonly Candidate[];
  /** All GPUs on one host. */
  readonly isSameHost?: boolean;
  /** Of the bandwidth to count on, and not above it; that bandwidth when absent. */
  readonly score?: (candidate: Candidate, countedGbs: number) => number;
  /** GB/s that running gangs send out of the rack of a host; none when absent. */
  readonly rackTrafficOf?: (host: number) => number;
  /** With a score: what the pick keeps at least of the best bandwidth to count on, from 0 to 1; 0 when absent. */
  readonly leastShare?: number;
}

export interface PickBudget {
  /** Work that the predictor may be given, in shares; a share among s costs 1 + s / `SHARES_OF_ATTENTION`. */
  readonly work: number;
}

export interface Picked {
  readonly pick: Candidate;
  readonly predictedGbs: number;
  readonly score: number;
  /** The highest prediction of all candidates, whatever their scores. */
  readonly mostGbs: number;
  readonly stats: PickStats;
}

export interface PickStats {
  /** Candidates that were predicted. */
  readonly candidates: number;
  readonly batches: number;
  readonly work: number;
  /** Every way to split the gang over the hosts was looked at or cannot be better. */
  readonly isExact: boolean;
}

/** Undefined when fewer GPUs than wanted may be taken. */
export type PickSearch = (question: PickQuestion, budget?: PickBudget) => Picked | undefined;

/**
 * Attention among this many shares costs as much as all else that a Transformer of width 32 does with them: 12,288 multiplications
 * a share and layer, 64 for each pair.
 */
const SHARES_OF_ATTENTION = 192;

export const workOf = (shares: number): number => shares * (1 + shares / SHARES_OF_ATTENTION);

export interface Leader {
  readonly pick: Candidate;
  readonly predictedGbs: number;
  readonly score: number;
}

interface Entered extends Leader {
  readonly countedGbs: number;
}

export interface Contest {
  /** Predicts those that are new and keeps the best. */
  enter(candidates: readonly Candidate[]): void;
  leader(): Leader | undefined;
  /** Undefined of one that did not take part. */
  scoreOf(candidate: Candidate): number | undefined;
  /** Work done so far. */
  work(): number;
  /** What one candidate costs: shares that the predictor takes for alike count once. */
  workFor(candidate: Candidate): number;
  /** Whether nothing below or at this intra-host bandwidth can win any more. */
  isBeaten(slowestGbs: number): boolean;
  result(isExact: boolean): Picked | undefined;
}

/** Candidates in one call of the predictor, so that a pruned search learns of good ones in time. */
const BATCH = 64;

export function openContest({
  predictor,
  freeMasks,
  score,
  leastShare = 0,
}: PickQuestion): Contest {
  const entered = new Map<string, Entered>();
  let leader: Entered | undefined;
  let mostGbs = 0;
  let batches = 0;
  let work = 0;
  const wholes = predictor.domain.hosts.map(
    ({ gpuCount }, host) => popCount(freeMasks[host] ?? 0) === gpuCount,
  );
  const sizes = predictor.domain.hosts.map(({ gpuCount }) => gpuCount);
  const isBetter = (a: Leader, b: Leader): boolean =>
    a.score > b.score || (a.score === b.score && byTies(a.pick, b.pick, { wholes, sizes }) < 0);

  const { kindOf } = predictor;
  const workFor = (candidate: Candidate): number =>
    workOf(kindOf === undefined ? candidate.length : new Set(candidate.map(kindOf)).size);

  const predicted = (fresh: readonly (readonly [key: string, pick: Candidate])[]): void => {
    const answers = appraised(
      predictor,
      fresh.map(([, pick]) => pick),
    );
    batches += 1;
    for (const [index, [key, pick]] of fresh.entries()) {
      const { predictedGbs = NaN, countedGbs = NaN } = answers[index] ?? {};
      if (Number.isNaN(predictedGbs) || Number.isNaN(countedGbs))
        throw new Error(`model ${predictor.version} has no number for a candidate`);
      const one = {
        pick,
        predictedGbs,
        countedGbs,
        score: score?.(pick, countedGbs) ?? countedGbs,
      };
      work += workFor(pick);
      entered.set(key, one);
      mostGbs = Math.max(mostGbs, predictedGbs);
      if (leader === undefined || isBetter(one, leader)) leader = one;
    }
  };

  /** With neighbours the best score may belong to a pick that gives up too much of its own. */
  const winner = (): Leader | undefined => {
    if (score === undefined || leader === undefined || leastShare === 0) return leader;
    let most = 0;
    for (const { countedGbs } of entered.values()) most = Math.max(most, countedGbs);
    const least = leastShare * most;
    if (leader.countedGbs >= least) return leader;
    let best: Entered | undefined;
    for (const one of entered.values())
      if (one.countedGbs >= least && (best === undefined || isBetter(one, best))) best = one;
    return best;
  };

  return {
    enter(candidates) {
      const fresh = new Map<string, Candidate>();
      for (const pick of candidates) {
        const key = keyOf(pick);
        if (!entered.has(key)) fresh.set(key, pick);
      }
      const open = [...fresh];
      for (let from = 0; from < open.length; from += BATCH)
        predicted(open.slice(from, from + BATCH));
    },
    leader: () => leader,
    scoreOf: (candidate) => entered.get(keyOf(candidate))?.score,
    work: () => work,
    workFor,
    isBeaten: (slowestGbs) =>
      predictor.isClamped === true && leader !== undefined && slowestGbs < leader.score,
    result: (isExact) => {
      const found = winner();
      if (found === undefined) return undefined;
      const { pick, predictedGbs, score: best } = found;
      return {
        pick,
        predictedGbs,
        score: best,
        mostGbs,
        stats: { candidates: entered.size, batches, work, isExact },
      };
    },
  };
}

/** What is predicted and what may be counted on. */
export const appraised = (
  predictor: BandwidthPredictor,
  candidates: readonly Candidate[],
): readonly Appraised[] =>
  predictor.appraise?.(candidates) ??
  predictor.predict(candidates).map((gbs) => ({ predictedGbs: gbs, countedGbs: gbs }));

export const keyOf = (candidate: Candidate): string => {
  let key = "";
  for (const { host, mask } of candidate) key += `${host}:${mask} `;
  return key;
};

interface Ground {
  /** By host of the domain: all its GPUs are free. */
  readonly wholes: readonly boolean[];
  readonly sizes: readonly number[];
}

/** Negative when `a` is the better of two with equal scores. */
export function byTies(a: Candidate, b: Candidate, ground: Ground): number {
  return (
    byBroken(brokenSizes(a, ground), brokenSizes(b, ground)) ||
    a.length - b.length ||
    byShares(a, b)
  );
}

/** Sizes of the whole free hosts that it touches, largest first. */
const brokenSizes = (candidate: Candidate, { wholes, sizes }: Ground): readonly number[] =>
  candidate
    .flatMap(({ host }) => (wholes[host] === true ? [sizes[host] ?? 0] : []))
    .sort((a, b) => b - a);

function byBroken(a: readonly number[], b: readonly number[]): number {
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

function byShares(a: Candidate, b: Candidate): number {
  for (const [at, { host, mask }] of a.entries()) {
    const other = b[at];
    if (other === undefined) return 1;
    if (host !== other.host || mask !== other.mask) return host - other.host || mask - other.mask;
  }
  return a.length - b.length;
}
