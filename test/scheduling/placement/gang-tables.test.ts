/** @file The tables of a gang against every choice of hosts: a rack, a cluster, and several clusters in one or more sites. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { popCount } from "../../../domain/lease/lease.ts";
import type { Cover } from "../../../scheduling/placement/cover.ts";
import {
  clusterCover,
  openTables,
  rackCover,
  sitesCover,
  type GangTables,
} from "../../../scheduling/placement/gang-tables.ts";
import type { PlaceHost } from "../../../scheduling/placement/place-policy.ts";
import {
  anyMasks,
  costOfHosts,
  hostsOf,
  leastCost,
  sitesOf,
  usedBy,
  weightsOf,
  type Level,
} from "./parted.ts";

const opened = (gpus: number): GangTables => openTables(gpus, weightsOf(gpus), new Map());
const freeOf = (hosts: readonly PlaceHost[]): number =>
  hosts.reduce((sum, { freeMask }) => sum + popCount(freeMask), 0);

/** The gang's entry has the lowest price, and the GPUs behind it are free, as many as wanted, and cost that much. */
function expectLeast(
  { cover, tables }: { readonly cover: Cover; readonly tables: GangTables },
  hosts: readonly PlaceHost[],
  upTo: Level,
): void {
  const { gpus, weights, chosen } = tables;
  const priceOf = (used: readonly PlaceHost[]): number => costOfHosts(used, weights, upTo);
  expect(cover.cost[gpus]).toBe(leastCost(hosts, gpus, priceOf));
  cover.take(gpus);
  expect(chosen.reduce((sum, { mask }) => sum + popCount(mask), 0)).toBe(gpus);
  expect(priceOf(usedBy(chosen, hosts))).toBe(cover.cost[gpus]);
  expect(tables.cells).toBeGreaterThan(0);
}

/** A gang of two GPUs or more, as many as there are at most. */
function sizeFor(hosts: readonly PlaceHost[], drawn: number): number {
  const free = freeOf(hosts);
  fc.pre(free >= 2);
  return 2 + (drawn % (free - 1));
}

test("several clusters give the gang at the lowest price of all choices of hosts", () => {
  fc.assert(
    fc.property(anyMasks, fc.nat(), (masks, drawn) => {
      const hosts = hostsOf(masks);
      const tables = opened(sizeFor(hosts, drawn));
      expectLeast({ cover: sitesCover(sitesOf(hosts), tables), tables }, hosts, "site");
    }),
  );
});

test("one cluster gives the gang at the lowest price of its hosts", () => {
  fc.assert(
    fc.property(anyMasks, fc.nat(), (masks, drawn) => {
      const hosts = hostsOf(masks).filter(({ at }) => at.cluster === 0);
      const tables = opened(sizeFor(hosts, drawn));
      const part = sitesOf(hosts)[0]?.clusters[0];
      if (part === undefined) throw new Error("no cluster");
      expectLeast({ cover: clusterCover(part, tables), tables }, hosts, "cluster");
    }),
  );
});

test("one rack gives the gang at the lowest price of its hosts, and is worked out once", () => {
  fc.assert(
    fc.property(anyMasks, fc.nat(), (masks, drawn) => {
      const hosts = hostsOf(masks).filter(({ at }) => at.rack === 0);
      const tables = opened(sizeFor(hosts, drawn));
      const rack = sitesOf(hosts)[0]?.clusters[0]?.racks[0];
      if (rack === undefined) throw new Error("no rack");
      const cover = rackCover(rack, 2, tables);
      const { cells } = tables;
      expect(rackCover(rack, tables.gpus, tables)).toBe(cover);
      expect(tables.cells).toBe(cells);
      expect(rackCover(rack, 1, tables)).not.toBe(cover);
      expectLeast({ cover, tables }, hosts, "rack");
    }),
  );
});
