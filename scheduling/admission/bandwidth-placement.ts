/**
 * @file The placement policy with BandPilot behind it: of all places that a gang may have, the GPUs with the best bandwidth.
 *
 * The inner policy chooses the compact place of a gang of at least two GPUs. Then the *grounds* are searched: the free GPUs of one type in one
 * cluster each. The ground of the compact place gets the whole search (pick/search-pick.ts); the other grounds that hold the gang and have
 * a model, `MOST_GROUNDS` of them, a short one, and the best of these the whole one too. Another type or cluster is taken where its score
 * is `CROSS_GAIN` times that of the compact ground, because predictions of two models or types err differently. A gang over several
 * clusters keeps its GPU count in each, and its part of each is searched for alone. The answer is taken when its score is better than the compact
 * one's and it is within the watts. A compact place that is compact enough for the gang (compact-only.ts) makes every faster one good enough.
 * Gangs of the same cluster count as neighbours (pick/sharing.ts). A predictor that throws, or has no time left, costs no request
 * its grant: the compact answer stands, and its note says why. Ties: the compact answer, then the fleet's order.
 * Cost: the inner policy's, two searches and the short ones. Source: BandPilot §4.3.
 */

import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import type { BandwidthPredictor } from "../../domain/bandwidth/bandwidth-port.ts";
import { byCodeUnit, type HostId } from "../../domain/values/ids.ts";
import { gpuCountOf, popCount, type HostGpus } from "../../domain/lease/lease.ts";
import type { PickBudget } from "../pick/search.ts";
import type {
  BandwidthPorts,
  PlaceDemand,
  Placed,
  PlaceHost,
  PlacePolicy,
} from "../placement/place-policy.ts";
import { isWithinWatts } from "../placement/watts.ts";
import { bandwidthFor, fallbackNote, NOT_TAKEN } from "./bandwidth-notes.ts";
import {
  searchGround,
  SHORT,
  type Ground,
  type GroundAnswer,
  type Place,
} from "./search-ground.ts";

export interface BandwidthRules {
  readonly budget?: PickBudget;
}

/** Grounds beside that of the compact place. */
const MOST_GROUNDS = 8;
const CROSS_GAIN = 1.02;

export const withBandwidth =
  (inner: PlacePolicy, rules: BandwidthRules = {}): PlacePolicy =>
  (demand, hosts, ports) => {
    const compact = inner(demand, hosts, ports);
    if (compact.gpus === undefined || ports.bandwidth === undefined || demand.gpus < 2)
      return compact;
    const bandwidth = bandwidthFor(ports.bandwidth, demand);
    const grounds = groundsOf(hosts);
    const own = grounds.filter((ground) => holdsAny(ground, compact.gpus ?? []));
    const [only] = own;
    if (only === undefined) return compact;
    const search: Search = { demand, hosts, bandwidth, rules };
    if (own.length > 1) return overClusters(compact, own, search);
    let predictor: BandwidthPredictor | undefined;
    try {
      predictor = bandwidth.predictorOf(only.cluster);
      if (predictor === undefined) return compact;
      const others = grounds.filter((ground) => ground !== only && holds(ground, demand));
      return better(compact, { ...search, own: only, others, predictor });
    } catch (error) {
      return { ...compact, bandwidth: fallbackNote(error, predictor) };
    }
  };

interface Search {
  readonly demand: PlaceDemand;
  readonly hosts: readonly PlaceHost[];
  readonly bandwidth: BandwidthPorts;
  readonly rules: BandwidthRules;
}

/** One for each cluster and GPU type with free GPUs, in the fleet's order. */
export function groundsOf(hosts: readonly PlaceHost[]): readonly Ground[] {
  const alike = new Map<string, PlaceHost[]>();
  for (const host of hosts) {
    if (host.freeMask === 0) continue;
    const key = `${host.at.cluster} ${host.at.gpuType}`;
    const group = alike.get(key);
    if (group === undefined) alike.set(key, [host]);
    else group.push(host);
  }
  const orderOf = ([first]: readonly PlaceHost[]): number => first?.at.order ?? 0;
  return [...alike.values()]
    .map((group) => group.sort((a, b) => a.at.order - b.at.order))
    .sort((a, b) => orderOf(a) - orderOf(b))
    .flatMap((group) => {
      const [first] = group;
      return first === undefined ? [] : [{ cluster: first.at.clusterId, hosts: group }];
    });
}

const holdsAny = ({ hosts }: Ground, gpus: readonly HostGpus[]): boolean => {
  const used = new Set<HostId>(gpus.map(({ host }) => host));
  return hosts.some(({ at }) => used.has(at.host));
};

/** Whether the gang has room there by count. */
export function holds(
  { hosts }: Ground,
  { gpus, isSameHost, isSameFabric }: Pick<PlaceDemand, "gpus" | "isSameHost" | "isSameFabric">,
): boolean {
  if (isSameFabric && hosts[0]?.at.hasFabric !== true) return false;
  const free = hosts.map(({ freeMask }) => popCount(freeMask));
  return isSameHost
    ? free.some((count) => count >= gpus)
    : free.reduce((sum, count) => sum + count, 0) >= gpus;
}

interface Choice extends Search {
  readonly own: Ground;
  readonly others: readonly Ground[];
  readonly predictor: BandwidthPredictor;
}

function better(compact: Placed, choice: Choice): Placed {
  const { demand, bandwidth, own, predictor, rules, hosts } = choice;
  const known = compact.gpus ?? [];
  const at = searchGround(own, { demand, predictor, bandwidth, known, ...rules });
  if (at?.known === undefined)
    return {
      ...compact,
      bandwidth: { method: "compact", fallback: "the model does not know its hosts" },
    };
  const elsewhere = bestElsewhere(choice);
  const found =
    elsewhere.best !== undefined && elsewhere.best.score > at.score * CROSS_GAIN
      ? elsewhere.best
      : at;
  const isBetter = found.score > at.known.score;
  const isAllowed = isWithinWatts(demand.wattsLeft, hosts, found.gpus);
  const chosen: Place = isBetter && isAllowed ? found : at.known;
  const bestGbs = Math.max(at.mostGbs, elsewhere.mostGbs);
  return {
    gpus: chosen.gpus,
    candidates: compact.candidates + at.candidates + elsewhere.candidates,
    bandwidth: {
      ...finite({
        predictedGbs: chosen.predictedGbs,
        bestGbs,
        compactGbs: at.known.predictedGbs,
      }),
      model: chosen.model,
      method: chosen === at.known ? "compact" : "searched",
      ...whyNot(chosen, { bestGbs, isWatts: isBetter && !isAllowed, at, found }),
    },
  };
}

type Figures = Pick<BandwidthNote, "predictedGbs" | "bestGbs" | "compactGbs">;

/** JSON has no infinity. */
const finite = (figures: Figures): Figures =>
  Object.fromEntries(Object.entries(figures).filter(([, gbs]) => Number.isFinite(gbs)));

interface Elsewhere {
  readonly best?: GroundAnswer;
  readonly mostGbs: number;
  readonly candidates: number;
}

/** Of the other types and clusters. What their models cannot say costs the compact ground nothing. */
function bestElsewhere({ others, demand, bandwidth, rules }: Choice): Elsewhere {
  let best: { readonly ground: Ground; readonly answer: GroundAnswer } | undefined;
  let mostGbs = 0;
  let candidates = 0;
  const look = (ground: Ground, budget: PickBudget | undefined): GroundAnswer | undefined => {
    try {
      const predictor = bandwidth.predictorOf(ground.cluster);
      if (predictor === undefined) return undefined;
      const found = searchGround(ground, {
        demand,
        predictor,
        bandwidth,
        ...(budget && { budget }),
      });
      mostGbs = Math.max(mostGbs, found?.mostGbs ?? 0);
      candidates += found?.candidates ?? 0;
      return found;
    } catch {
      return undefined;
    }
  };
  for (const ground of others.slice(0, MOST_GROUNDS)) {
    const answer = look(ground, SHORT);
    if (answer !== undefined && (best === undefined || answer.score > best.answer.score))
      best = { ground, answer };
  }
  if (best === undefined) return { mostGbs, candidates };
  const whole = look(best.ground, rules.budget);
  const isWholeBetter = whole !== undefined && whole.score > best.answer.score;
  return { best: isWholeBetter ? whole : best.answer, mostGbs, candidates };
}

interface WhyNot {
  readonly bestGbs: number;
  readonly isWatts: boolean;
  /** On the ground of the compact place. */
  readonly at: GroundAnswer;
  readonly found: GroundAnswer;
}

/** Predictions that are that close are one. */
const EPSILON = 1e-6;

/** Why the GPUs are not those with the highest prediction. */
function whyNot(
  { predictedGbs }: Place,
  { bestGbs, isWatts, at, found }: WhyNot,
): Pick<BandwidthNote, "fallback"> {
  if (bestGbs <= predictedGbs * (1 + EPSILON)) return {};
  if (isWatts) return { fallback: NOT_TAKEN.watts };
  if (found.mostGbs < bestGbs && found === at) return { fallback: NOT_TAKEN.elsewhere };
  return { fallback: found.isBesideOthers ? NOT_TAKEN.neighbours : NOT_TAKEN.unlike };
}

/** Each cluster gives as many GPUs as in the compact place. What links carry, no model of a cluster says, so there is no prediction of the whole. */
function overClusters(compact: Placed, grounds: readonly Ground[], search: Search): Placed {
  const { demand, hosts, bandwidth, rules } = search;
  let { candidates } = compact;
  const parts = grounds.flatMap((ground): readonly HostGpus[] => {
    const there = new Set<HostId>(ground.hosts.map(({ at }) => at.host));
    const known = (compact.gpus ?? []).filter(({ host }) => there.has(host));
    const gpus = gpuCountOf(known);
    if (gpus < 2) return known;
    try {
      const predictor = bandwidth.predictorOf(ground.cluster);
      const found =
        predictor &&
        searchGround(ground, {
          demand: { gpus, isSameHost: false },
          predictor,
          bandwidth,
          known,
          ...rules,
        });
      candidates += found?.candidates ?? 0;
      const isBetter = found?.known !== undefined && found.score > found.known.score;
      return isBetter ? found.gpus : known;
    } catch {
      // The compact part stands: a gang over several clusters has no note of a model.
      return known;
    }
  });
  const gpus = [...parts].sort((a, b) => byCodeUnit(a.host, b.host));
  return isWithinWatts(demand.wattsLeft, hosts, gpus)
    ? { ...compact, gpus, candidates }
    : { ...compact, candidates };
}
