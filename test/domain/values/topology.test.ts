/** @file NVLink domains are the connected components of the NVLinks. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  nvlinkDomains,
  nvlinkLanes,
  type HostTopology,
  type LinkKind,
} from "../../../domain/values/topology.ts";

/** A host whose GPUs are joined by the given NVLinks, by PCIe else. */
function host(gpuCount: number, nvlinks: readonly (readonly [number, number])[]): HostTopology {
  const gpus = Array.from({ length: gpuCount }, () => ({}));
  const isJoined = (a: number, b: number): boolean =>
    nvlinks.some(([c, d]) => (a === c && b === d) || (a === d && b === c));
  const kind = (a: number, b: number): LinkKind =>
    a === b ? "self" : isJoined(a, b) ? { kind: "nvlink", lanes: 4 } : "sys";
  return { gpuCount, links: gpus.map((_, a) => gpus.map((__, b) => kind(a, b))), gpus, nics: [] };
}

test("GPUs in a chain of NVLinks are one domain, the others are alone", () => {
  expect(
    nvlinkDomains(
      host(6, [
        [0, 3],
        [3, 5],
        [1, 2],
      ]),
    ),
  ).toEqual([[0, 3, 5], [1, 2], [4]]);
  expect(nvlinkLanes(host(2, [[0, 1]]), 1, 0)).toBe(4);
  expect(nvlinkLanes(host(2, []), 1, 0)).toBe(0);
});

test("two GPUs are in one domain exactly when a path of NVLinks joins them", () => {
  const edge = fc.tuple(fc.nat(7), fc.nat(7)).filter(([a, b]) => a !== b);
  fc.assert(
    fc.property(fc.array(edge, { maxLength: 10 }), (edges) => {
      const reach = Array.from({ length: 8 }, (_, a) =>
        Array.from({ length: 8 }, (__, b) => a === b),
      );
      for (const [a, b] of edges)
        for (const [c, d] of [
          [a, b],
          [b, a],
        ])
          reach[c ?? 0]?.splice(d ?? 0, 1, true);
      for (let via = 0; via < 8; via += 1) {
        for (const row of reach) {
          if (row[via] === true)
            reach[via]?.forEach((isThere, b) => isThere && row.splice(b, 1, true));
        }
      }
      const domains = nvlinkDomains(host(8, edges));
      for (const domain of domains) {
        const reached = reach[domain[0] ?? 0]?.flatMap((isThere, b) => (isThere ? [b] : []));
        expect(domain).toEqual(reached);
      }
      expect(domains.flat().sort((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    }),
  );
});
