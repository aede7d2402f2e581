/** @file The lexicographic optimum: it is what an exhaustive search finds, and never worse than SpinSearch. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bestClusters, bestClustersBy } from "../../../scheduling/placement/best-clusters.ts";
import {
  compareScores,
  scoreChoice,
  type ClusterPolicy,
} from "../../../scheduling/placement/cluster-policy.ts";
import { clustersExhaustive } from "../../../bench/rivals/placement/clusters-exhaustive.ts";
import { spinSearch } from "../../../scheduling/placement/spin-search.ts";
import { anyRoom, namesOf, roomOf } from "./clusters.ts";
import { caseCount } from "../../support/case-count.ts";

const ROOM = roomOf({ a: 4, b: 8, c: 5, d: 3, e: 9 }, [
  { between: "ab", gbps: 1 },
  { between: "bc", gbps: 10 },
  { between: "ac", gbps: 10 },
  { between: "cd", gbps: 10 },
]);

test.each([
  { why: "the cluster that strands least", gpus: 4, want: "a" },
  { why: "one cluster, also where it reaches nobody", gpus: 9, want: "e" },
  {
    why: "two that reach each other by a wide relay, not by the narrow link",
    gpus: 12,
    want: "ab",
  },
  { why: "of wide sets the one that strands least", gpus: 11, want: "bd" },
  { why: "a third one only where two do not do", gpus: 14, want: "abd" },
  { why: "nothing that needs who is not reached", gpus: 21, want: "" },
])("$gpus GPUs: $why", ({ gpus, want }) => {
  expect(namesOf(bestClusters({ gpus, maxClusters: 5 }, ROOM).choice?.clusters)).toBe(want);
});

describe("as an exhaustive search has it", () => {
  const agrees = (policy: ClusterPolicy, onlyFirst: boolean): void => {
    fc.assert(
      fc.property(
        anyRoom(10),
        fc.integer({ min: 1, max: 70 }),
        fc.integer({ min: 1, max: 10 }),
        (room, gpus, maxClusters) => {
          const demand = { gpus, maxClusters };
          const ours = policy(demand, room).choice;
          const best = clustersExhaustive(demand, room).choice;
          expect(ours === undefined).toBe(best === undefined);
          if (ours === undefined || best === undefined) return;
          const got = scoreChoice(ours, room);
          const want = scoreChoice(best, room);
          if (onlyFirst) {
            expect(got.clusters).toBe(want.clusters);
            expect(got.bottleneckGbps).toBe(want.bottleneckGbps);
          } else expect(got).toEqual(want);
        },
      ),
      { numRuns: caseCount(300) },
    );
  };

  test("in all three keys, on irregular and loaded links", () => {
    agrees(bestClusters, false);
  });

  test("in the first two when there is no room for a single table", () => {
    agrees(bestClustersBy({ mostWords: 0 }), true);
  });
});

test.each([
  ["with tables", bestClusters],
  ["without", bestClustersBy({ mostWords: 0 })],
])("never worse than SpinSearch from any home, %s", (_, policy) => {
  fc.assert(
    fc.property(anyRoom(14), fc.integer({ min: 1, max: 90 }), fc.nat(13), (room, gpus, place) => {
      const demand = { gpus, maxClusters: 99, home: place % room.free.length };
      const spun = spinSearch(demand, room).choice;
      const ours = policy(demand, room).choice;
      if (spun === undefined) return;
      expect(ours).toBeDefined();
      if (ours === undefined) return;
      expect(compareScores(scoreChoice(ours, room), scoreChoice(spun, room))).toBeLessThanOrEqual(
        0,
      );
    }),
  );
});

test("of equals, home", () => {
  const room = roomOf({ a: 4, b: 4, c: 4 }, []);
  expect(bestClusters({ gpus: 3, maxClusters: 1, home: 1 }, room).choice?.clusters).toEqual([1]);
  expect(bestClusters({ gpus: 3, maxClusters: 1 }, room).choice?.clusters).toEqual([0]);
});
