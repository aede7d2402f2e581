/**
 * @file A picker that knows everything of a fabric but the path that each connection takes: what can be reached without knowing paths.
 *
 * The product's search over the truth's own answers: cards, faults, uplinks, and the gangs that run are all known. Where switches choose paths
 * by hash, a set is worth its mean over `WORLDS` other hashes. The oracle sees the true hash and finds sets that happen not to collide, which no
 * feature tells, so a learner need not be measured by more than this. It is a search and no proof: an answer of ours may be better in one state.
 */

import type { BandwidthPredictor } from "../../../domain/bandwidth/bandwidth-port.ts";
import { fabricTruth } from "../../fabric/truth.ts";
import { productChooser, type Chooser } from "./entrants.ts";
import type { FabricField } from "./field.ts";

const WORLDS = 3;
/** Between the seeds of hashes; clusters are drawn from small ones. */
const APART = 1_000_003;

export function knowingChooser(field: FabricField): Chooser {
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
    const drawn = worlds.map((world) => ({
      world,
      neighbours: state.gangs.flatMap((gang) => world.neighbour(gang) ?? []),
    }));
    const predictor: BandwidthPredictor = {
      version: "all but the paths",
      domain,
      kindOf: ({ mask }) => mask,
      strengthOf: (host) => (slowest[host] ?? 0) / most,
      predict: (candidates) =>
        candidates.map(
          (set) =>
            drawn.reduce((sum, { world, neighbours }) => sum + world.gbs(set, neighbours), 0) /
            drawn.length,
        ),
    };
    // The truth has them in its answers.
    return productChooser(field, predictor)({ ...state, gangs: [] });
  };
}
