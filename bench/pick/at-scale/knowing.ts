/**
 * @file A picker that knows everything of a fabric but the path that each connection takes: what can be reached without knowing paths.
 *
 * Cards, faults, uplinks, and the gangs that run are all known. Where switches choose paths by hash, a set is worth its mean over `WORLDS` other
 * hashes. The product's search over these answers is climbed on from, as the oracle climbs on the truth (oracle.ts). The oracle sees the true
 * hash and finds sets that happen not to collide, which no feature tells, so a learner need not be measured by more than this. It is a search
 * and no proof: an answer of ours may be better in one state.
 */

import type { BandwidthPredictor } from "../../../domain/bandwidth/bandwidth-port.ts";
import type { Random } from "../../../lib/random.ts";
import { fabricTruth, type FabricTruth } from "../../fabric/truth.ts";
import { productChooser, type Chooser } from "./entrants.ts";
import type { FabricField } from "./field.ts";
import { oracle, type OracleEffort } from "./oracle.ts";
import type { FabricState } from "./states.ts";

/** The climb finds what is good by chance in few worlds. */
const WORLDS = 8;
/** Between the seeds of hashes; clusters are drawn from small ones. */
const APART = 1_000_003;
/** A set costs `WORLDS` times what it costs the oracle. */
const MOST_EFFORT: OracleEffort = Object.freeze({ randomSets: 300, patience: 300 });

/** With the oracle's effort, as far as `MOST_EFFORT` goes. */
export function knowingChooser(
  field: FabricField,
  { randomSets, patience, random }: OracleEffort & { readonly random: Random },
): Chooser {
  const effort = {
    randomSets: Math.min(MOST_EFFORT.randomSets, randomSets),
    patience: Math.min(MOST_EFFORT.patience, patience),
  };
  const { domain, truth } = field;
  const { cluster } = truth;
  const worlds =
    cluster.paths === 0
      ? [truth]
      : Array.from({ length: WORLDS }, (_, at) =>
          fabricTruth({ ...cluster, seed: cluster.seed + (at + 1) * APART }),
        );
  const slowest = domain.hosts.map((_, host) =>
    Math.min(
      ...Array.from({ length: cluster.cardsPerHost }, (_card, card) =>
        Number(cluster.capacity[cluster.links.out(host, card)]),
      ),
    ),
  );
  const most = Math.max(...slowest);
  return (state) => {
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
    const entrants = [searched, productChooser(field)(state)];
    return oracle({ ...field, truth: blind }, state, { ...effort, entrants, random }).pick;
  };
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
