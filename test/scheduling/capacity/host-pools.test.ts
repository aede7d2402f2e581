/** @file Pools of alike hosts: their sums are those of their hosts, whatever changes. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { openSpread } from "../../../scheduling/placement/spread.ts";
import {
  changeHost,
  gpusIn,
  keptMask,
  largestHost,
  openPools,
  setService,
  type Pool,
  type PoolHost,
} from "../../../scheduling/capacity/host-pools.ts";
import { fleetShape, readyLedger, type ClusterSpec } from "../builders.ts";

const RESPECTS = ["ever", "idle", "unleased", "unreserved", "open"] as const;

function pools(clusters: readonly ClusterSpec[]): readonly Pool[] {
  const { shape, hosts } = readyLedger(fleetShape(clusters));
  return openPools(shape.clusters, hosts, openSpread(shape).layout);
}

function only<T>([first, ...others]: readonly T[]): T {
  if (first === undefined || others.length > 0) throw new Error("exactly one was expected");
  return first;
}

test("hosts of equal cluster, type, memory and draw are one pool", () => {
  const found = pools([
    { hosts: [{}, { gpus: 4 }, { memoryGiB: 40 }, { watts: 300 }, { type: "A100" }] },
    { hosts: [{}] },
  ]);
  expect(found.map(({ hosts, rank }) => [rank, hosts.map(({ id }) => id)])).toEqual([
    [0, ["c0/h0", "c0/h1"]],
    [0, ["c0/h2"]],
    [0, ["c0/h3"]],
    [1, ["c0/h4"]],
    [1_000, ["c1/h0"]],
  ]);
});

test("a host counts in each respect the GPUs that no obstacle of it hides", () => {
  const host = only(only(pools([{}])).hosts);
  changeHost(host, { leasedMask: 0b0000_0111, reservedMask: 0b0001_1100 });
  const counts = () => RESPECTS.map((respect) => gpusIn(host, respect));
  expect(counts()).toEqual([8, 8, 5, 5, 3]);
  expect(host.freeMask).toBe(0b1110_0000);
  expect(keptMask(host)).toBe(0b0001_1000);
  setService(host, { hostCondition: undefined, drainedMask: 0b0001_0011 });
  expect(counts()).toEqual([8, 5, 4, 3, 3]);
  setService(host, { hostCondition: "silent", drainedMask: 0b0001_0011 });
  expect(counts()).toEqual([8, 0, 0, 0, 0]);
  expect(host.freeMask).toBe(0);
  setService(host, { hostCondition: undefined, drainedMask: 0 });
  expect(counts()).toEqual([8, 8, 5, 5, 3]);
});

test("a host that never said hello gives nothing but what it has", () => {
  const { shape } = readyLedger(fleetShape([{}]));
  const { tallies } = only(openPools(shape.clusters, new Map(), openSpread(shape).layout));
  expect(RESPECTS.map((respect) => tallies[respect].gpus)).toEqual([8, 0, 0, 0, 0]);
});

describe("the tallies of a pool", () => {
  const SIZES = [8, 4, 1];
  const masks = fc.nat(255);
  const changes = fc.record({
    at: fc.nat(SIZES.length - 1),
    leasedMask: masks,
    reservedMask: masks,
    drainedMask: masks,
    hostCondition: fc.constantFrom(undefined, undefined, "drained" as const, "silent" as const),
  });

  test("are the sum and the largest count of its hosts after any changes", () => {
    fc.assert(
      fc.property(fc.array(changes, { maxLength: 12 }), (all) => {
        const pool = only(pools([{ hosts: SIZES.map((gpus) => ({ gpus })) }]));
        for (const { at, hostCondition, drainedMask, leasedMask, reservedMask } of all) {
          const host: PoolHost | undefined = pool.hosts[at];
          if (host === undefined) throw new Error("no such host");
          const within = host.fullMask;
          setService(host, { hostCondition, drainedMask: drainedMask & within });
          changeHost(host, {
            leasedMask: leasedMask & within,
            reservedMask: reservedMask & within,
          });
        }
        for (const respect of RESPECTS) {
          const counts = pool.hosts.map((host) => gpusIn(host, respect));
          expect(pool.tallies[respect].gpus).toBe(counts.reduce((sum, count) => sum + count, 0));
          expect(largestHost(pool.tallies[respect])).toBe(Math.max(...counts));
        }
      }),
    );
  });
});
