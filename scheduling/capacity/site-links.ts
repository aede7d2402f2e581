/**
 * @file The links between clusters as decisions use them: fresh measurements where there are any, the fleet's description elsewhere.
 *
 * Measurements are from site to site, so they hold for every pair of clusters of the two sites. They replace bandwidth and round trip of a
 * described link and keep its price; a measured link without a description counts as well. A failed link is left out in both directions.
 * A measurement between two ends on one machine replaces nothing. Cost: O(described links + clusters² of the measured sites).
 */

import type { FleetShape, Link } from "../../domain/fleet/fleet.ts";
import { byCodeUnit, type ClusterId } from "../../domain/values/ids.ts";
import {
  isInForce,
  siteLinkKey,
  sitePairKey,
  type SiteLink,
} from "../../domain/fleet/site-link.ts";
import type { Ledger } from "../ledger/ledger.ts";

type LinkFacts = Pick<Ledger, "shape" | "links">;

/** Those described first and in their order, then those that were only measured, by the order of the clusters. */
export function linksNow({ shape, links }: LinkFacts, nowMs: number): readonly Link[] {
  if (links === undefined || links.size === 0) return shape.links;
  const siteOf = new Map(shape.clusters.map(({ id, site }) => [id, site]));
  const wordOn = (from: ClusterId, to: ClusterId): SiteLink | undefined => {
    const [here, there] = [siteOf.get(from), siteOf.get(to)];
    if (here === undefined || there === undefined) return undefined;
    const word = links.get(siteLinkKey(here, there));
    return word !== undefined && isInForce(word, nowMs) ? word : undefined;
  };
  const isOut = (word: SiteLink | undefined): boolean => word?.outageSinceMs !== undefined;
  const described = shape.links.flatMap((link): Link[] => {
    const word = wordOn(link.from, link.to);
    if (isOut(word) || isOut(wordOn(link.to, link.from))) return [];
    if (word?.measured === undefined || word.isLocal === true) return [link];
    const { bandwidthGbps, roundTripMs } = word.measured;
    return [{ ...link, bandwidthGbps, latencyMs: roundTripMs }];
  });
  return [...described, ...undescribed(shape, wordOn)];
}

function undescribed(
  { clusters, links }: FleetShape,
  wordOn: (from: ClusterId, to: ClusterId) => SiteLink | undefined,
): readonly Link[] {
  const known = new Set(links.map(({ from, to }) => siteLinkKey(from, to)));
  return clusters.flatMap(({ id: from, site }) =>
    clusters.flatMap(({ id: to, site: other }): Link[] => {
      if (site === other || known.has(siteLinkKey(from, to))) return [];
      const word = wordOn(from, to);
      if (word?.measured === undefined || word.isLocal === true) return [];
      if (word.outageSinceMs !== undefined) return [];
      const { bandwidthGbps, roundTripMs } = word.measured;
      return [{ from, to, bandwidthGbps, latencyMs: roundTripMs }];
    }),
  );
}

/** When the first word of an outage ends by itself; infinite when nothing is out. */
export function nextRevivalAtMs({ links }: Pick<Ledger, "links">, nowMs: number): number {
  let soonestMs = Infinity;
  for (const word of links?.values() ?? [])
    if (word.outageSinceMs !== undefined && isInForce(word, nowMs))
      soonestMs = Math.min(soonestMs, word.validUntilMs + 1);
  return soonestMs;
}

/** Pairs of sites between which nothing comes through now, by `sitePairKey`, in order. */
export function deadPairs({ links }: Pick<Ledger, "links">, nowMs: number): ReadonlySet<string> {
  const dead = [...(links?.values() ?? [])].filter(
    (word) => word.outageSinceMs !== undefined && isInForce(word, nowMs),
  );
  return new Set(dead.map(({ from, to }) => sitePairKey(from, to)).sort(byCodeUnit));
}
