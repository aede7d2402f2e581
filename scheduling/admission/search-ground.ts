/**
 * @file Searches one ground, the free GPUs of one type in one cluster, for the GPUs with the best bandwidth beside the gangs that run there.
 *
 * Gangs that run on GPUs which are offered are gone by then (evicted, moved, or at their end), so they are no neighbours.
 * Cost: that of pick/search-pick.ts, and O(gangs of the cluster).
 */

import type { BandwidthPredictor, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { ClusterId } from "../../domain/values/ids.ts";
import { keyOf, type Picked, type PickBudget } from "../pick/search.ts";
import { searchPick, usualBudget } from "../pick/search-pick.ts";
import { rackTraffic, type RackTraffic } from "../pick/rack-traffic.ts";
import { cardCapacities, KEPT_SHARE, scoreAmong, type Neighbour } from "../pick/sharing.ts";
import type { BandwidthPorts, PlaceDemand, PlaceHost } from "../placement/place-policy.ts";
import { candidateOf, gpusOf, indicesOf, type HostIndices } from "./domain-hosts.ts";

/** All of one GPU type and cluster. */
export interface Ground {
  readonly cluster: ClusterId;
  readonly hosts: readonly PlaceHost[];
}

export interface GroundQuestion {
  readonly demand: Pick<PlaceDemand, "gpus" | "isSameHost">;
  readonly predictor: BandwidthPredictor;
  readonly bandwidth: BandwidthPorts;
  readonly budget?: PickBudget;
  /** A place on the ground that is known: the answer is not worse. */
  readonly known?: readonly HostGpus[];
}

/** One place and what is predicted of it. */
export interface Place {
  readonly gpus: readonly HostGpus[];
  readonly predictedGbs: number;
  /** With its neighbours. */
  readonly score: number;
  /** The version of the model, or `table` for one host. */
  readonly model: string;
}

export interface GroundAnswer extends Place {
  /** The highest prediction of all candidates, whatever their scores. */
  readonly mostGbs: number;
  /** Whether neighbours had a part in the score. */
  readonly isBesideOthers: boolean;
  readonly known?: Place;
  readonly candidates: number;
}

/** Undefined when the ground holds fewer GPUs than wanted, or the model does not know the hosts of `known`. */
export function searchGround(ground: Ground, question: GroundQuestion): GroundAnswer | undefined {
  const { demand, predictor, bandwidth, known } = question;
  const indexOf = indicesOf(predictor);
  const knownPick = known && candidateOf(known, indexOf);
  if (known !== undefined && knownPick === undefined) return undefined;
  const freeMasks = predictor.domain.hosts.map(() => 0);
  for (const { at, freeMask } of ground.hosts) {
    const index = indexOf.get(at.host);
    if (index !== undefined) freeMasks[index] = freeMask;
  }
  const among = amongGangs(ground, question, { freeMasks, indexOf });
  const score = among?.score;
  const found = searchPick(
    {
      predictor,
      freeMasks,
      gpus: demand.gpus,
      ...(knownPick && { also: [knownPick] }),
      isSameHost: demand.isSameHost,
      ...(among !== undefined && { ...among, leastShare: KEPT_SHARE }),
    },
    budgetOf(question),
  );
  if (found === undefined) return undefined;
  bandwidth.spend?.(found.stats.work);
  return answerOf(found, { predictor, known, knownPick, score });
}

/** Of the work that is left, what one search may take. */
const PART_OF_REST = 1 / 8;
/** The best set of each host, the balanced sets and some ways. */
export const SHORT: PickBudget = Object.freeze({ work: 24 });

function budgetOf({ predictor, bandwidth, budget }: GroundQuestion): PickBudget {
  const whole = budget ?? usualBudget(predictor.domain.hosts.length);
  const part = (bandwidth.left?.() ?? Infinity) * PART_OF_REST;
  return { work: Math.min(whole.work, Math.max(SHORT.work, part)) };
}

function answerOf(
  { pick, predictedGbs, score: best, mostGbs, stats }: Picked,
  {
    predictor,
    known,
    knownPick,
    score,
  }: Pick<GroundQuestion, "predictor"> & {
    readonly known: readonly HostGpus[] | undefined;
    readonly knownPick: Candidate | undefined;
    readonly score: Score | undefined;
  },
): GroundAnswer {
  const modelOf = (one: Candidate): string => (one.length === 1 ? "table" : predictor.version);
  const [knownGbs = 0] = knownPick === undefined ? [] : predictor.predict([knownPick]);
  return {
    gpus: gpusOf(pick, predictor),
    predictedGbs,
    score: best,
    model: modelOf(pick),
    mostGbs,
    isBesideOthers: score !== undefined,
    candidates: stats.candidates,
    ...(known !== undefined &&
      knownPick !== undefined && {
        known: {
          gpus: known,
          predictedGbs: knownGbs,
          score: score?.(knownPick, knownGbs) ?? knownGbs,
          model: modelOf(knownPick),
        },
      }),
  };
}

type Score = ReturnType<typeof scoreAmong>;

/** The bandwidth that the cluster gains by a pick, beside the gangs that run there; undefined when none of them uses its host's card. */
function amongGangs(
  { cluster, hosts }: Ground,
  { predictor, bandwidth }: GroundQuestion,
  { freeMasks, indexOf }: { readonly freeMasks: readonly number[]; readonly indexOf: HostIndices },
): { readonly score: Score; readonly rackTrafficOf?: RackTraffic["ofHost"] } | undefined {
  const gangs = bandwidth.gangsOf?.(cluster) ?? [];
  if (gangs.length === 0) return undefined;
  const offered = new Map(hosts.map(({ at, freeMask }) => [at.host, freeMask]));
  const isGone = (gpus: readonly HostGpus[]): boolean =>
    gpus.some(({ host, mask }) => ((offered.get(host) ?? 0) & mask) !== 0);
  const shares = gangs.flatMap((gpus) => {
    const candidate = gpus.length < 2 || isGone(gpus) ? undefined : candidateOf(gpus, indexOf);
    return candidate === undefined || candidate.length < 2 ? [] : [candidate];
  });
  if (shares.length === 0) return undefined;
  const gbs = rememberedPredictions(predictor, shares);
  const neighbours = shares.map((each, at): Neighbour => ({ shares: each, gbs: gbs[at] ?? 0 }));
  const { domain, strengthOf } = predictor;
  const street = { neighbours, capacityOf: cardCapacities(predictor) };
  if (strengthOf === undefined) return { score: scoreAmong(street, { domain, freeMasks }) };
  const traffic = rackTraffic(domain, street);
  return {
    score: scoreAmong(street, { domain, freeMasks, partOf: traffic.partOf }),
    rackTrafficOf: traffic.ofHost,
  };
}

/** Cache of a pure function: every pick asks for the bandwidth of running gangs again. */
const predictions = new WeakMap<BandwidthPredictor, Map<string, number>>();
const MOST_PREDICTIONS = 4_096;

function rememberedPredictions(
  predictor: BandwidthPredictor,
  candidates: readonly Candidate[],
): readonly number[] {
  const own = predictions.get(predictor) ?? new Map<string, number>();
  predictions.set(predictor, own);
  const open = candidates.filter((each) => !own.has(keyOf(each)));
  if (own.size + open.length > MOST_PREDICTIONS) own.clear();
  const asked = own.size === 0 ? candidates : open;
  if (asked.length > 0) {
    const answers = predictor.predict(asked);
    for (const [at, each] of asked.entries()) own.set(keyOf(each), answers[at] ?? 0);
  }
  return candidates.map((each) => own.get(keyOf(each)) ?? 0);
}
