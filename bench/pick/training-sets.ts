/**
 * @file On which sets the models of the bench are trained.
 *
 *   drawn  what the protocol says for the H100 cluster: so many of the measured multisets, at random. For a mixed cluster: any GPUs.
 *   asked  sets such as a pick would ask about: a scenario, of all ways to split it over the hosts the quarter whose slowest host is
 *          fastest, and of these one at random, each host with its best set. Of any GPUs of a mixed cluster nearly all hold a host so slow
 *          inside that its table explains the whole, so they teach nothing about the network between the others; these do.
 * The bench trains on the measured multisets of the H100 cluster, and on asked sets of the mixed ones; it reports the drawn ones beside it.
 */

import type { BandwidthSample } from "../../domain/bandwidth-port.ts";
import type { Random } from "../../lib/random.ts";
import { waysOf } from "../../scheduling/pick/exact-counts.ts";
import { allOptions } from "../../scheduling/pick/host-options.ts";
import { keyOf } from "../../scheduling/pick/search.ts";
import { truthPredictor } from "./protocol.ts";
import { gpusOf, scenariosOf } from "./scenarios.ts";
import type { Truth } from "./truth.ts";

/** The part of the ways that is worth asking about. */
const FASTEST_SHARE = 0.25;
/** Scenarios in vain before a small cluster counts as exhausted. */
const MAX_MISSES = 200;

export function askedSets(truth: Truth, count: number, random: Random): readonly BandwidthSample[] {
  const { domain } = truth;
  const most = gpusOf(domain).length;
  const predictor = truthPredictor(truth);
  const seen = new Map<string, BandwidthSample>();
  let misses = 0;
  for (let round = 0; seen.size < count && misses < MAX_MISSES; round += 1) {
    const own = random.stream(`round ${String(round)}`);
    const gpus = 2 + own.below(most - 1);
    const [scenario] = scenariosOf(domain, { smallest: gpus, largest: gpus, each: 1 }, own);
    if (scenario === undefined) continue;
    const hosts = allOptions(domain, scenario.freeMasks);
    const ways = [...waysOf(hosts, { gpus, predictor })]
      .filter(({ pick }) => pick.length > 1)
      .sort((a, b) => (a.slowestGbs === b.slowestGbs ? 0 : b.slowestGbs - a.slowestGbs));
    const shares = ways[own.below(Math.ceil(ways.length * FASTEST_SHARE))]?.pick;
    const gbs = shares && truth.gbs(shares);
    if (shares === undefined || gbs === undefined || seen.has(keyOf(shares))) misses += 1;
    else {
      misses = 0;
      seen.set(keyOf(shares), { shares, gbs });
    }
  }
  return [...seen.values()];
}
