/**
 * @file Placement: which clusters a gang gets on ledgers that evolve, and which GPUs of a crowded fleet.
 *
 * Of clusters: numbers and GPU counts of each answer of ours and of every rival. Of GPUs: hosts, masks, cost and throughput.
 */

import { crowdedFleet } from "../../bench/queue/crowded-fleet.ts";
import { entrantsFor } from "../../bench/placement/entrants.ts";
import { arrivalsOf, makeRoom, openBook, start } from "../../bench/placement/play.ts";
import { drawnTopology, type Topology } from "../../bench/placement/topology.ts";
import { drawFrom } from "../../bench/statistics.ts";
import { randomFrom } from "../../lib/random.ts";
import { lowestIds } from "../../scheduling/pick/lowest-ids.ts";
import { pairPolicy } from "../../scheduling/admission/paired-placement.ts";
import { bestFit } from "../../simulator/entrants/best-fit.ts";
import { exhaustive } from "../../bench/rivals/placement/exhaustive.ts";
import { firstFit } from "../../scheduling/placement/first-fit.ts";
import { leastSpread } from "../../scheduling/placement/least-spread.ts";
import { costOf, throughputOf } from "../../scheduling/placement/spread.ts";
import { thriftiest } from "../../scheduling/placement/thriftiest.ts";
import type { PlacePolicy } from "../../scheduling/placement/place-policy.ts";
import { digestOf, type DigestCase } from "./digest.ts";

const SEED = 1;
const SMALL: Topology = drawnTopology(
  { name: "8 clusters", gpus: [2, 2, 2, 2, 2, 4, 1, 1], linked: 0.5, widestGbps: 15 },
  randomFrom(SEED, "small fleet"),
);
const LARGE: Topology = drawnTopology(
  {
    name: "64 clusters",
    gpus: Array.from({ length: 64 }, () => 56),
    linked: 0.1,
    widestGbps: 25,
  },
  randomFrom(SEED, "large fleet"),
);

const POLICIES: readonly (readonly [string, PlacePolicy])[] = [
  ["least spread", leastSpread],
  ["best fit", bestFit],
  ["first fit", pairPolicy({ placement: firstFit, pick: lowestIds })],
  ["least watts", thriftiest],
];

export const placementCases: readonly DigestCase[] = [
  clusterCase(SMALL, { arrivals: 200, slow: 10, isQuick: true }),
  clusterCase(SMALL, { arrivals: 5_000, slow: 50 }),
  clusterCase(LARGE, { arrivals: 60, slow: 2, isQuick: true }),
  clusterCase(LARGE, { arrivals: 2_000, slow: 10 }),
  ...POLICIES.flatMap(([name, policy]) => [
    gangCase(name, policy, { gangs: 30, isQuick: true }),
    gangCase(name, policy, { gangs: 400 }),
  ]),
  exhaustiveCase(40),
];

interface ClusterPlay {
  readonly arrivals: number;
  /** Arrivals of slow methods. */
  readonly slow: number;
  readonly isQuick?: boolean;
}

function clusterCase(
  topology: Topology,
  { arrivals: count, slow, isQuick = false }: ClusterPlay,
): DigestCase {
  return {
    name: `${topology.name}, ${String(count)} arrivals (slow methods ${String(slow)}), ours and rivals`,
    isQuick,
    run: () =>
      digestOf((values) => {
        const arrivals = arrivalsOf(topology, count, randomFrom(SEED, "arrivals"));
        for (const { policy, isSlow } of entrantsFor(topology.gpus.length)) {
          const book = openBook(topology);
          const leavers = randomFrom(SEED, "leavers");
          for (const arrival of isSlow === true ? arrivals.slice(0, slow) : arrivals) {
            makeRoom(book, arrival, leavers);
            const { choice } = policy(arrival.demand, book.room);
            values.counts(choice?.clusters);
            values.counts(choice?.gpus);
            if (choice !== undefined) start(book, choice);
          }
        }
      }),
  };
}

const DEMAND = { maxClusters: 3, isSameHost: false, isSameFabric: false } as const;

function gangCase(
  name: string,
  policy: PlacePolicy,
  { gangs, isQuick = false }: { readonly gangs: number; readonly isQuick?: boolean },
): DigestCase {
  return {
    name: `${name}, ${String(gangs)} gangs of 1 to 64 GPUs and ${String(gangs / 10)} of 1,000 on a crowded fleet of 1,798`,
    isQuick,
    run: () =>
      digestOf((values) => {
        const draw = drawFrom(SEED);
        const fleet = crowdedFleet(draw);
        const { spread } = fleet;
        for (let at = 0; at < gangs; at += 1) {
          const { free, freeable } = fleet.next();
          const isLarge = at % 10 === 9;
          const gpus = isLarge ? 1_000 : 1 + draw.below(64);
          const demand = { ...DEMAND, gpus };
          const placed = policy(demand, isLarge ? freeable : free, { spread }).gpus;
          values.gpus(placed);
          values.figure(placed && costOf(placed, spread));
          values.figure(placed && throughputOf(placed, spread));
        }
      }),
  };
}

/** Hosts with few GPUs free, because the oracle tries all sets. */
function exhaustiveCase(gangs: number): DigestCase {
  return {
    name: `every set of GPUs tried, and least spread, ${String(gangs)} gangs of 1 to 8 GPUs on four hosts`,
    isQuick: true,
    run: () =>
      digestOf((values) => {
        const draw = drawFrom(SEED);
        const fleet = crowdedFleet(draw);
        const { spread } = fleet;
        for (let at = 0; at < gangs; at += 1) {
          const { free } = fleet.next();
          const hosts = [0, 1, 2, 3].flatMap((step) => {
            const host = free[(at + 7 * step) % free.length];
            return host === undefined ? [] : [{ ...host, freeMask: host.freeMask & 0b111 }];
          });
          const open = hosts.filter(({ freeMask }) => freeMask !== 0);
          const demand = { ...DEMAND, gpus: 1 + draw.below(8) };
          values.gpus(exhaustive(demand, open, { spread }).gpus);
          values.gpus(leastSpread(demand, open, { spread }).gpus);
        }
      }),
  };
}
