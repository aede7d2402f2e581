/** @file The sets that one host can give, against every subset: the fastest of each size, then the lowest mask. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { BandwidthDomain } from "../../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { allOptions, optionsOf } from "../../../scheduling/pick/host-options.ts";
import { scrambled } from "./worlds.ts";
import { caseCount } from "../../support/case-count.ts";

const domainOf = (
  gpuCount: number,
  gbsOf: (mask: number) => number | undefined,
): BandwidthDomain => ({
  hosts: [{ id: hostId("c", "h0"), gpuCount, gpuType: "H100" }],
  intraGbs: (_, mask) => gbsOf(mask),
});

test("are the fastest sets of each size among the free GPUs; a set without a measurement comes last", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 255 }), fc.nat(999), (freeMask, seed) => {
      const gbsOf = (mask: number): number | undefined => {
        const gbs = scrambled(seed, mask);
        return gbs < 10 ? undefined : gbs % 7;
      };
      const { free, masks, gbs } = optionsOf(domainOf(8, gbsOf), 0, freeMask);
      expect(free).toBe(popCount(freeMask));
      for (let count = 1; count <= free; count += 1) {
        let best: readonly [gbs: number, mask: number] = [-Infinity, 0];
        for (let mask = 255; mask > 0; mask -= 1) {
          if ((mask & ~freeMask) !== 0 || popCount(mask) !== count) continue;
          const own = gbsOf(mask) ?? -1;
          if (own >= best[0]) best = [own, mask];
        }
        expect([gbs[count] ?? -1, masks[count]]).toEqual(best);
      }
    }),
    { numRuns: caseCount(60) },
  );
});

test("a host of sixteen GPUs gives up those whose loss costs least", () => {
  // Two boards of eight: across them it is slow.
  const gbsOf = (mask: number): number => ((mask & 0xff) !== 0 && mask >> 8 !== 0 ? 10 : 100);
  const { masks, gbs } = optionsOf(domainOf(16, gbsOf), 0, 0xffff);
  expect([masks[8], gbs[8]]).toEqual([0xff, 100]);
  expect([popCount(masks[9] ?? 0), gbs[9]]).toEqual([9, 10]);
});

test("hosts with nothing to give are left out, and masks beyond a host's GPUs are cut", () => {
  const domain: BandwidthDomain = {
    hosts: [4, 4, 4].map((gpuCount, at) => ({
      id: hostId("c", `h${at}`),
      gpuCount,
      gpuType: "H100",
    })),
    intraGbs: () => 1,
  };
  const found = allOptions(domain, [0b1111_0011, 0, 0b1111]);
  expect(found.map(({ host, freeMask, isWhole }) => [host, freeMask, isWhole])).toEqual([
    [0, 0b0011, false],
    [2, 0b1111, true],
  ]);
});
