/** @file Gangs that ask for short or cheap ways: the best set by trying all, and the paper's table 1 by latency. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { bestClusters } from "../../../scheduling/placement/best-clusters.ts";
import {
  distancesOf,
  MOST_NODES,
  nearestClusters,
  worstPair,
} from "../../../scheduling/placement/nearest-clusters.ts";
import { anyRoom, namesOf, roomOf } from "./clusters.ts";
import { caseCount } from "../../support/case-count.ts";

const ROOM = roomOf({ a: 4, b: 4, c: 4, d: 4, e: 12, g: 12 }, [
  { between: "ab", gbps: 1, latencyMs: 1, usdPerGB: 0.09 },
  { between: "bc", gbps: 1, latencyMs: 1, usdPerGB: 0.09 },
  { between: "cd", gbps: 1, latencyMs: 1, usdPerGB: 0.09 },
  { between: "ae", gbps: 9, latencyMs: 7, usdPerGB: 0.01 },
  { between: "ag", gbps: 5, latencyMs: 1, usdPerGB: 0.05 },
]);

test.each([
  { prefer: "latency", want: "ag" },
  { prefer: "price", want: "ae" },
] as const)("sixteen GPUs by $prefer lie in $want", ({ prefer, want }) => {
  const demand = { gpus: 16, maxClusters: 6 };
  const { choice } = nearestClusters(demand, ROOM, { prefer, mostNodes: MOST_NODES });
  // The last letter of the six is g's.
  expect(namesOf(choice?.clusters).replace("f", "g")).toBe(want);
});

test.each(["latency", "price"] as const)("no set of as many clusters is nearer by %s", (prefer) => {
  fc.assert(
    fc.property(anyRoom(9), fc.integer({ min: 1, max: 60 }), (room, gpus) => {
      const demand = { gpus, maxClusters: 9 };
      const { count } = room.links.graph;
      const distance = distancesOf(room.links.graph, prefer);
      const { choice, isExact } = nearestClusters(demand, room, { prefer, mostNodes: MOST_NODES });
      const fewest = bestClusters(demand, room).choice?.clusters.length;
      expect(isExact).toBe(true);
      expect(choice?.clusters.length).toBe(fewest);
      if (choice === undefined || fewest === undefined || fewest < 2) return;
      const sumOf = (clusters: readonly number[]): number =>
        clusters.reduce((sum, cluster) => sum + (room.free[cluster] ?? 0), 0);
      let [bestWorst, bestSum] = [Infinity, Infinity];
      for (let mask = 1; mask < 1 << count; mask += 1) {
        const clusters = Array.from(room.free, (_, at) => at).filter((at) => (mask >> at) & 1);
        if (clusters.length !== fewest || sumOf(clusters) < gpus) continue;
        const worst = worstPair({ clusters }, distance, count);
        if (worst > bestWorst || (worst === bestWorst && sumOf(clusters) >= bestSum)) continue;
        [bestWorst, bestSum] = [worst, sumOf(clusters)];
      }
      expect(worstPair(choice, distance, count)).toBe(bestWorst);
      expect(sumOf(choice.clusters)).toBe(bestSum);
    }),
    { numRuns: caseCount(100) },
  );
});

test("within no budget the set that bandwidth chooses stands", () => {
  const demand = { gpus: 16, maxClusters: 6 };
  const { choice, isExact } = nearestClusters(demand, ROOM, { prefer: "latency", mostNodes: 0 });
  expect(isExact).toBe(false);
  expect(choice).toEqual(bestClusters(demand, ROOM).choice);
});
