/**
 * @file What can be reached on a fabric without knowing the path that each connection takes: the worth of a set there, and a picker that knows all else.
 *
 * Cards, faults, uplinks, and the gangs that run are all known to it. Where switches choose paths by hash, a set is worth its mean over other
 * hashes, here over `WORLDS` of them. The product's search over these answers and the picks of all others are climbed on from, as the oracle climbs on the
 * truth (oracle.ts). The oracle sees the true hash and finds sets that happen not to collide, which no feature tells. Over the true hash a set of anyone
 * who does not know it has on average what it has over others, so the mean over `JUDGED` hashes that nobody has seen says what is to be expected of a pick without
 * the luck of one hash, and the picker's is the bound of what a learner can expect: found by a search, so it may be a little higher.
 */

import type { BandwidthPredictor, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import type { Random } from "../../../lib/random.ts";
import { fabricTruth, type FabricTruth } from "../../fabric/truth.ts";
import { productChooser } from "./entrants.ts";
import type { FabricField } from "./field.ts";
import { oracle, type OracleEffort } from "./oracle.ts";
import type { FabricState } from "./states.ts";

/** The climb finds what is good by chance in few worlds. */
const WORLDS = 8;
const JUDGED = 16;
/** Between the seeds of hashes; clusters are drawn from small ones. */
const APART = 1_000_003;
/** A set costs `WORLDS` times what it costs the oracle. */
const MOST_EFFORT: OracleEffort = Object.freeze({ randomSets: 300, patience: 300 });

/** From what others picked. */
type KnowingChooser = (state: FabricState, others: readonly Candidate[]) => Candidate;

/** With the oracle's effort, as far as `MOST_EFFORT` goes. */
export function knowingChooser(
  field: FabricField,
  { randomSets, patience, random }: OracleEffort & { readonly random: Random },
): KnowingChooser {
  const effort = {
    randomSets: Math.min(MOST_EFFORT.randomSets, randomSets),
    patience: Math.min(MOST_EFFORT.patience, patience),
  };
  const { domain, truth } = field;
  const { cluster } = truth;
  const worlds = otherWorlds(truth, { first: 0, count: WORLDS });
  const slowest = domain.hosts.map((_, host) =>
    Math.min(
      ...Array.from({ length: cluster.cardsPerHost }, (_card, card) =>
        Number(cluster.capacity[cluster.links.out(host, card)]),
      ),
    ),
  );
  const most = Math.max(...slowest);
  return (state, others) => {
    const blind = blindTruth(truth, { worlds, state });
    const predictor: BandwidthPredictor = {
      version: "all but the paths",
      domain,
      kindOf: ({ mask }) => mask,
      strengthOf: (host) => (slowest[host] ?? 0) / most,
      predict: (candidates) => candidates.map((set) => blind.gbs(set, state.neighbours)),
    };
    // The truth has them in its answers.
    const searched = productChooser(field, predictor)({ ...state, gangs: [] });
    const entrants = [searched, ...others];
    return oracle({ ...field, truth: blind }, state, { ...effort, entrants, random }).pick;
  };
}

/** By state: what a set is worth over hashes that no picker has seen, GB/s; its true bandwidth where no path is chosen by hash. */
export function worthWithoutPaths({
  truth,
}: FabricField): (state: FabricState) => (set: Candidate) => number {
  const worlds = otherWorlds(truth, { first: WORLDS, count: JUDGED });
  return (state) => {
    const blind = blindTruth(truth, { worlds, state });
    return (set) => blind.gbs(set, state.neighbours);
  };
}

/** The same cluster with other hashes; where packets are spread evenly there is nothing by hash. */
function otherWorlds(
  truth: FabricTruth,
  { first, count }: { readonly first: number; readonly count: number },
): readonly FabricTruth[] {
  const { cluster } = truth;
  if (cluster.paths === 0) return [truth];
  return Array.from({ length: count }, (_, at) =>
    fabricTruth({ ...cluster, seed: cluster.seed + (first + at + 1) * APART }),
  );
}

/** Means over other hashes, beside the gangs of the state in each where neighbours are named. */
function blindTruth(
  truth: FabricTruth,
  { worlds, state }: { readonly worlds: readonly FabricTruth[]; readonly state: FabricState },
): FabricTruth {
  const drawn = worlds.map((world) => ({
    world,
    beside: state.gangs.flatMap((gang) => world.neighbour(gang) ?? []),
  }));
  return {
    ...truth,
    gbs: (set, neighbours = []) =>
      drawn.reduce(
        (sum, { world, beside }) => sum + world.gbs(set, neighbours.length === 0 ? [] : beside),
        0,
      ) / drawn.length,
  };
}
