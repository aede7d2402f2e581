/** @file Policies that choose GPUs in one go: what every one of them keeps, and that ours is the best there is. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { HostShape } from "../../../domain/fleet/fleet.ts";
import { gpuCountOf } from "../../../domain/lease/lease.ts";
import { watts } from "../../../domain/values/units.ts";
import { lowestIds } from "../../../scheduling/pick/lowest-ids.ts";
import { pairPolicy } from "../../../scheduling/admission/paired-placement.ts";
import { bestFit } from "../../../simulator/entrants/best-fit.ts";
import { exhaustive, isAllowed } from "../../../bench/rivals/placement/exhaustive.ts";
import { firstFit } from "../../../scheduling/placement/first-fit.ts";
import { greedySwaps } from "../../../bench/rivals/placement/greedy-swaps.ts";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import type {
  PlaceDemand,
  PlaceHost,
  PlacePolicy,
} from "../../../scheduling/placement/place-policy.ts";
import { costOf, openSpread, type FleetSpread } from "../../../scheduling/placement/spread.ts";
import { thriftiest } from "../../../scheduling/placement/thriftiest.ts";
import { fleetOf, type RackSpec } from "./fleets.ts";
import { caseCount } from "../../support/case-count.ts";

/** Costs of the tables are multiples of 2^-30; a gang has some dozens of them. */
const EPSILON = 1e-6;

interface Case {
  readonly spread: FleetSpread;
  readonly hosts: readonly PlaceHost[];
  readonly demand: PlaceDemand;
}

/** Hosts of four GPUs: of one domain, of two, of two domains across two NUMA nodes. */
const kinds: readonly Partial<HostShape>[] = [
  { gpuCount: 4 },
  { gpuCount: 4, nvlinkDomains: [0b0011, 0b1100], numaNodes: [0b0011, 0b1100] },
  { gpuCount: 4, nvlinkDomains: [0b0101, 0b1010], numaNodes: [0b0011, 0b1100] },
  { gpuCount: 4, gpuType: "L4", nvlinkDomains: [0b0001, 0b0110, 0b1000] },
];

const racks: fc.Arbitrary<readonly RackSpec[]> = fc.array(
  fc.record({
    site: fc.constantFrom("s0", "s1"),
    cluster: fc.constantFrom("c0", "c1", "c2"),
    rack: fc.constantFrom("r0", "r1"),
    hosts: fc.constantFrom(1, 2),
    kind: fc.constantFrom(...kinds),
  }),
  { minLength: 1, maxLength: 5 },
);

const budget = fc.option(fc.integer({ min: 0, max: 8 }), { nil: Infinity });

function caseOf(options: {
  readonly draws: readonly number[];
  readonly most: number;
}): fc.Arbitrary<Case> {
  return racks.chain((specs) => {
    const sited = specs.map((spec) => ({ ...spec, site: spec.cluster === "c2" ? "s1" : "s0" }));
    const shape = fleetOf(sited);
    const count = sited.reduce((sum, { hosts }) => sum + hosts, 0);
    return fc
      .record({
        masks: fc.array(fc.integer({ min: 0, max: 15 }), { minLength: count, maxLength: count }),
        draws: fc.array(fc.constantFrom(...options.draws), { minLength: count, maxLength: count }),
        gpus: fc.integer({ min: 1, max: options.most }),
        maxClusters: fc.integer({ min: 1, max: 3 }),
        isSameHost: fc.boolean(),
        isSameFabric: fc.boolean(),
        rack: budget,
        cluster: budget,
        site: budget,
        isLimited: fc.boolean(),
        shuffle: fc.boolean(),
      })
      .map(({ masks, draws, shuffle, rack, cluster, site, isLimited, ...demand }): Case => {
        let at = 0;
        const drawing = shape.clusters.map((each) => ({
          ...each,
          hosts: each.hosts.map((host) => ({ ...host, gpuWatts: watts(draws[at++] ?? 1) })),
        }));
        const spread = openSpread({ clusters: drawing });
        let open = 14;
        const hosts = [...spread.layout.values()].flatMap((layout, index): PlaceHost[] => {
          const freeMask = masks[index] ?? 0;
          open -= gpuCountOf([{ host: layout.host, mask: freeMask }]);
          return open < 0 ? [] : [{ at: layout, freeMask }];
        });
        const limits = {
          rack: () => rack,
          cluster: () => cluster,
          site: () => site,
        };
        return {
          spread,
          hosts: shuffle ? [...hosts].reverse() : hosts,
          demand: { ...demand, ...(isLimited && { wattsLeft: limits }) },
        };
      });
  });
}

const POLICIES: readonly (readonly [string, PlacePolicy])[] = [
  ["least spread", leastSpread],
  ["first fit and lowest ids", pairPolicy({ placement: firstFit, pick: lowestIds })],
  ["best fit", bestFit],
  ["greedy and swaps", greedySwaps()],
  ["thriftiest", thriftiest],
];

describe.each(POLICIES)("%s", (_name, policy) => {
  test("gives free GPUs of one type, as many as asked, in the shape and within the watts, sorted by host", () => {
    fc.assert(
      fc.property(caseOf({ draws: [1, 2], most: 10 }), ({ spread, hosts, demand }) => {
        const { gpus, candidates } = policy(demand, hosts, { spread });
        expect(candidates).toBeGreaterThanOrEqual(0);
        if (gpus === undefined) return;
        expect(gpuCountOf(gpus)).toBe(demand.gpus);
        for (const { host, mask } of gpus) {
          const free = hosts.find(({ at }) => at.host === host)?.freeMask ?? 0;
          expect(mask).not.toBe(0);
          expect(mask & ~free).toBe(0);
        }
        expect(isAllowed(demand, hosts, gpus)).toBe(true);
        const names = gpus.map(({ host }) => host);
        expect(names).toEqual([...new Set(names)].sort());
      }),
      { numRuns: caseCount(400) },
    );
  });
});

describe("least spread", () => {
  test("costs as little as any set of GPUs does, and finds one whenever there is one, where hosts draw alike", () => {
    fc.assert(
      fc.property(caseOf({ draws: [1], most: 7 }), ({ spread, hosts, demand }) => {
        const { gpus } = leastSpread(demand, hosts, { spread });
        const best = exhaustive(demand, hosts, { spread }).gpus;
        expect(gpus !== undefined).toBe(best !== undefined);
        if (gpus === undefined || best === undefined) return;
        expect(costOf(gpus, spread)).toBeLessThanOrEqual(costOf(best, spread) + EPSILON);
      }),
      { numRuns: caseCount(400) },
    );
  });

  test("costs no more than any rival's placement, and places whatever a rival does, where hosts draw alike", () => {
    fc.assert(
      fc.property(caseOf({ draws: [1], most: 14 }), ({ spread, hosts, demand }) => {
        const ours = leastSpread(demand, hosts, { spread }).gpus;
        for (const [, rival] of POLICIES) {
          const theirs = rival(demand, hosts, { spread }).gpus;
          if (theirs === undefined) continue;
          expect(ours).toBeDefined();
          expect(costOf(ours ?? [], spread)).toBeLessThanOrEqual(costOf(theirs, spread) + EPSILON);
        }
      }),
      { numRuns: caseCount(400) },
    );
  });

  test("finds a placement whenever there is one within a cluster's watts, however its hosts draw", () => {
    fc.assert(
      fc.property(caseOf({ draws: [1, 2, 3], most: 7 }), ({ spread, hosts, demand }) => {
        const { wattsLeft, ...rest } = demand;
        const within: PlaceDemand = {
          ...rest,
          ...(wattsLeft?.cluster !== undefined && { wattsLeft: { cluster: wattsLeft.cluster } }),
        };
        const { gpus } = leastSpread(within, hosts, { spread });
        expect(gpus !== undefined).toBe(exhaustive(within, hosts, { spread }).gpus !== undefined);
      }),
      { numRuns: caseCount(400) },
    );
  });

  test("does not depend on the order of the hosts", () => {
    fc.assert(
      fc.property(caseOf({ draws: [1], most: 10 }), ({ spread, hosts, demand }) => {
        const there = leastSpread(demand, hosts, { spread });
        expect(leastSpread(demand, [...hosts].reverse(), { spread })).toEqual(there);
      }),
    );
  });
});
