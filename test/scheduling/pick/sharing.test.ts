/** @file What a pick is worth beside the gangs that run, and to the gang that comes after it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { BandwidthDomain, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { scoreAmong, type Street } from "../../../scheduling/pick/sharing.ts";

/** Two hosts of four GPUs; inside a host 100 GB/s less 10 for each GPU, on the second half of that. */
const domain: BandwidthDomain = {
  hosts: [0, 1].map((at) => ({ id: hostId("eu", `h${String(at)}`), gpuCount: 4, gpuType: "X" })),
  intraGbs: (host, mask) =>
    popCount(mask) === 1 ? Infinity : (100 - 10 * popCount(mask)) / (1 + host),
};
const QUIET: Street = { neighbours: [], capacityOf: () => 1_000 };

describe("the gang that comes next", () => {
  test.each<readonly [string, readonly number[], Candidate, number]>([
    // Sizes 2, 3 and 4 are left with 80, 70 and 60 before, with 40, 35 and 30 after.
    ["the better host is gone", [0b1111, 0b1111], [{ host: 0, mask: 0b1111 }], 35],
    // Of the first host two are left: sizes 2 to 4 have 80, 35 and 30.
    ["half of the better host is gone", [0b1111, 0b1111], [{ host: 0, mask: 0b0011 }], 65 / 3],
    ["the worse host is gone", [0b1111, 0b1111], [{ host: 1, mask: 0b1111 }], 0],
    ["nothing else is free", [0b0011, 0], [{ host: 0, mask: 0b0011 }], 80 / 3],
    ["no host could hold a gang before", [0b0001, 0b0001], [{ host: 0, mask: 0b0001 }], 0],
  ])("where %s, a pick is charged a quarter of the mean loss", (_, freeMasks, pick, wantLost) => {
    const score = scoreAmong(QUIET, { domain, freeMasks });
    expect(score(pick, 90)).toBeCloseTo(90 - wantLost / 4, 9);
    expect(scoreAmong(QUIET)(pick, 90)).toBe(90);
  });
});

test("a score is never above the prediction, which lets a search prune by it", () => {
  const masks = fc.integer({ min: 0, max: 15 });
  const sharesOf = (pair: readonly [number, number]): Candidate =>
    pair.flatMap((mask, host) => (mask === 0 ? [] : [{ host, mask }]));
  fc.assert(
    fc.property(
      fc.tuple(masks, masks),
      fc.tuple(masks, masks),
      fc.tuple(masks, masks),
      fc.double({ min: 1, max: 500, noNaN: true }),
      fc.double({ min: 1, max: 500, noNaN: true }),
      (free, taken, running, gbs, capacity) => {
        const pick = sharesOf([free[0] & taken[0], free[1] & taken[1]]);
        fc.pre(pick.length > 0);
        const neighbours = [{ shares: sharesOf(running), gbs: 80 }];
        const street: Street = { neighbours, capacityOf: () => capacity };
        const score = scoreAmong(street, { domain, freeMasks: free });
        expect(score(pick, gbs)).toBeLessThanOrEqual(gbs + 1e-9);
      },
    ),
  );
});
