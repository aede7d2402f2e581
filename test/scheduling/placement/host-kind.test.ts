/** @file The GPUs of one host, against every subset: fewest domains, then fewest NUMA nodes, then fewest left behind. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { popCount } from "../../../domain/lease/lease.ts";
import { sharesOf, type HostKind } from "../../../scheduling/placement/host-kind.ts";
import { caseCount } from "../../support/case-count.ts";

const GPUS = 8;
const PARTS: readonly (readonly number[])[] = [
  [255],
  [15, 240],
  [3, 12, 48, 192],
  [7, 56, 192],
  [1, 2, 4, 8, 16, 32, 64, 128],
];
/** Domains lie inside NUMA nodes, or nodes inside domains, as in real hosts. */
const kinds = fc
  .tuple(fc.constantFrom(...PARTS), fc.constantFrom([255], [15, 240], [3, 12, 48, 192]))
  .filter(([domains, nodes]) =>
    domains.every((domain) =>
      nodes.some((node) => (domain & ~node) === 0 || (node & ~domain) === 0),
    ),
  )
  .map(([domains, numaNodes]): HostKind => ({
    number: 0,
    gpuCount: GPUS,
    domains,
    numaNodes,
    known: new Map(),
  }));

const touched = (parts: readonly number[], mask: number): readonly number[] =>
  parts.filter((part) => (part & mask) !== 0);

test("of every number of free GPUs", () => {
  fc.assert(
    fc.property(kinds, fc.integer({ min: 0, max: 255 }), (kind, freeMask) => {
      const { free, masks, domains, numaNodes } = sharesOf(kind, freeMask);
      expect(free).toBe(popCount(freeMask));
      for (let gpus = 0; gpus <= free; gpus += 1) {
        const mask = masks[gpus] ?? NaN;
        expect(popCount(mask)).toBe(gpus);
        expect(mask & ~freeMask).toBe(0);
        expect(domains[gpus]).toBe(touched(kind.domains, mask).length);
        expect(numaNodes[gpus]).toBe(touched(kind.numaNodes, mask).length);
        let fewest: readonly [number, number] = [Infinity, Infinity];
        for (let other = 0; other <= 255; other += 1) {
          if ((other & ~freeMask) !== 0 || popCount(other) !== gpus) continue;
          const counts = [
            touched(kind.domains, other).length,
            touched(kind.numaNodes, other).length,
          ] as const;
          if (counts[0] < fewest[0] || (counts[0] === fewest[0] && counts[1] < fewest[1]))
            fewest = counts;
        }
        expect([domains[gpus], numaNodes[gpus]]).toEqual(fewest);
      }
    }),
    { numRuns: caseCount(60) },
  );
});

test("whole domains stay whole: two GPUs come from the broken half", () => {
  const kind = {
    number: 0,
    gpuCount: 8,
    domains: [15, 240],
    numaNodes: [15, 240],
    known: new Map(),
  };
  expect(sharesOf(kind, 0b1111_0111).masks[2]).toBe(0b0000_0011);
  expect(sharesOf(kind, 0b0111_1111).masks[2]).toBe(0b0011_0000);
});
